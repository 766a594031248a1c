"""`fl-dp keys` and `fl-dp init`: what can be set, on the console and as files."""

from pathlib import Path
from typing import Annotated

import typer

from fl_dp.choices import Choices, nearest
from fl_dp.cli.common import say, write_new
from fl_dp.config.all_keys import Key, by_group, keys_of
from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError

ClientOption = Annotated[bool, typer.Option("--client", help="Of a client's own settings, not of a run's.")]


def keys(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY ...]", help="Only these.", show_default=False)
    ] = None,
    client: ClientOption = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print docs/keys.md.")] = False,
) -> None:
    """Say what can be set, in a run config or a client's: keys, defaults, values, meanings."""
    from fl_dp.config.all_keys import keys_page

    if markdown:
        typer.echo(keys_page(), nl=False)
        return
    known = keys_of(ClientConfig if client else RunConfig)
    if names:
        say("\n\n".join(_whole(_named(known, name, client)) for name in names))
        return
    from fl_dp.reporting.table import print_table

    for group, members in by_group(known):
        rows = [(key.name, key.default, key.about.meaning) for key in members]
        print_table(group, ("key", "default", "meaning"), rows, left=("key", "default", "meaning"))
        say("")
    say("fl-dp keys KEY says more of one.")


def init(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="New [default: run.toml, or client.toml].", show_default=False),
    ] = None,
    client: ClientOption = False,
) -> None:
    """Write a config in which every key is explained. It runs as it stands; a file is never overwritten.

    A client's says nothing of its data: these must be named.
    """
    from fl_dp.config.all_keys import client_file, run_file

    path = file or Path("client.toml" if client else "run.toml")
    text = (client_file if client else run_file)(path.name)
    write_new(path, text)
    if client:
        say(f"{path} is ready; name the data in it, then: fl-dp client --config {path}")
    else:
        say(f"{path} is ready; see what it would do: fl-dp check {path}")


def _named(known: list[Key], name: str, client: bool) -> Key:
    for key in known:
        if key.name == name.replace("_", "-"):
            return key
    near = nearest(name, [key.name for key in known])
    command = f"fl-dp keys{' --client' if client else ''}"
    raise ConfigError(f"{name}: unknown key; {f'did you mean {near}?' if near else f'{command} lists them.'}")


def _whole(key: Key) -> str:
    lines = [f"{key.name} = {key.default}" if key.default else key.name, f"  {key.about.meaning}"]
    choices = key.about.choices
    values = ", ".join(choices.names()) if isinstance(choices, Choices) else key.expected
    lines.append(f"  values: {values}{f', or {key.about.also}' if key.about.also else ''}")
    if key.about.page:
        lines.append(f"  more: docs/{key.about.page}")
    return "\n".join(lines)
