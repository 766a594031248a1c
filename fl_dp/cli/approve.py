"""`fl-dp approve`, and the question on a client's console: may this run train on these data?"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fl_dp.cli.common import asked_yes, command, say
from fl_dp.errors import ConfigError
from fl_dp.federation.client.approval import FOLDER, Question, give_answer, pending


@command()
def approve(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help='The ledger\'s folder, or "approvals" in it.')
    ],
    question: Annotated[str | None, typer.Argument(metavar="ID", help="Question to answer.")] = None,
    no: Annotated[bool, typer.Option("--no", help="Answer no: do not take part.")] = False,
) -> None:
    """Show and answer what servers ask of this client.

    For a client that was started with --approve.

    \b
    List the open questions:
      fl-dp approve ~/.local/state/fl-dp/ledger
    Answer one of them, yes or no:
      fl-dp approve ~/.local/state/fl-dp/ledger ID
      fl-dp approve ~/.local/state/fl-dp/ledger ID --no

    An answer holds for the rest of the run, unless the run asks for something else. Each question states the
    cost.
    """
    folder = folder.absolute()
    if folder.name != FOLDER or (folder / FOLDER).is_dir():  # the ledger's folder
        folder = folder / FOLDER
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder; the client makes it when a run first asks.")
    if question is not None:
        words = give_answer(folder, question, yes=not no)
        say(f"{'no' if no else 'yes'}: {words[0]}")
        return
    waiting = pending(folder)
    for one in waiting:
        say_question(one)
    if not waiting:
        say("no open questions")


def say_question(question: Question) -> None:
    say(f"[{question.id}]")
    for line in question.words:
        say(f"  {line}")


def ask_on_console(folder: Path, told: set[str]) -> None:
    """Ask the folder's open questions; without a terminal, print once how to answer each.

    told: ids that were shown before; new ones are added.
    """
    for one in pending(folder):
        if one.id in told:
            continue
        told.add(one.id)
        say_question(one)
        if sys.stdin.isatty():
            give_answer(folder, one.id, yes=asked_yes("take part?"))
        else:
            say(f"  answer with: fl-dp approve {folder} {one.id} [--no]")
