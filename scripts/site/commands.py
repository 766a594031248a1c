"""The reference of all commands, from the commands themselves."""

import re
from collections.abc import Iterator

import click
import typer

from fl_dp.cli.main import app

_HEAD = """# Commands

What `fl-dp COMMAND --help` says, of every command. In a checkout `./run.sh` is `fl-dp run`, `python
server.py` is `fl-dp server` and `python client.py` is `fl-dp client`.
"""


def commands_page() -> str:
    """Markdown: a section for each command and each of its sub-commands."""
    sections = [
        f"## `{' '.join(words)}`\n\n```text\n{_help(command, words)}\n```\n"
        for words, command in all_commands()
    ]
    return "\n".join([_HEAD, *sections])


def all_commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """(("fl-dp", "run"), command) and so on, groups before what they hold."""
    yield from _below(typer.main.get_command(app), ("fl-dp",))


def _below(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from _below(child, (*words, name))


def _help(command: click.Command, words: tuple[str, ...]) -> str:
    context = click.Context(command, info_name=" ".join(words), terminal_width=100, max_content_width=100)
    return re.sub(r"[ \t]+$", "", command.get_help(context), flags=re.MULTILINE).strip()
