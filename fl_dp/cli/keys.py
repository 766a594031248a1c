"""`fl-dp keys`: what can be set."""

from typing import Annotated

import typer

from fl_dp.choices import Choices, nearest
from fl_dp.cli.common import command, say
from fl_dp.config.all_keys import Key, by_group, keys_of, keys_page
from fl_dp.config.also_called import setting_called
from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.reporting.table import print_table


@command()
def keys(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY ...]", help="Keys to explain in full.")
    ] = None,
    client: Annotated[
        bool, typer.Option("--client", help="Keys of a client's own settings, not of a run config.")
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print all keys as a Markdown page.")] = False,
) -> None:
    """List the keys of a run config or of a client's settings."""
    if markdown:
        typer.echo(keys_page(), nl=False)
        return
    known = keys_of(ClientConfig if client else RunConfig)
    if names:
        say("\n\n".join(_whole(_named(known, name, client)) for name in names))
        return
    for group, members in by_group(known):
        rows = [(key.name, key.default, key.about.meaning) for key in members]
        print_table(group, ("key", "default", "meaning"), rows, left=("key", "default", "meaning"))
        say("")
    say("fl-dp keys KEY explains one of them.")


def _named(known: list[Key], name: str, client: bool) -> Key:
    for key in known:
        if key.name == name.replace("_", "-"):
            return key
    names = [key.name for key in known]
    near = setting_called(name)[0] if setting_called(name)[0] in names else nearest(name, names)
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
