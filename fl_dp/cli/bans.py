"""`fl-dp server ban` and `unban`: whom a run stops asking while it goes on."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from fl_dp.clean_text import one_line
from fl_dp.cli.common import check_whose_kit, say
from fl_dp.errors import ConfigError
from fl_dp.launch.resumption import check_going_on
from fl_dp.reporting.run_folder import RunFolder

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.", show_default=False)]
NamesArgument = Annotated[
    list[str], typer.Argument(metavar="NAME...", help="Names of clients, as in reports.", show_default=False)
]


def ban(
    run: RunArgument,
    names: NamesArgument,
    kit: Annotated[
        Path | None,
        typer.Option(help="The server's kit; needed only for a site of the roster that has not joined yet."),
    ] = None,
) -> None:
    """Stop asking these clients, from the next round on.

    What they have paid stays paid. They remain sites of the federation until a new roster leaves them out
    (docs/deployment.md).
    """
    from fl_dp.federation.server.left_out import read_banned, write_banned

    folder = _going_on(run)
    banned, known = read_banned(folder.path), _known(folder, kit)
    for name in names:
        if name not in known | banned:
            more = "" if kit else " To ban a site of the roster that has not joined yet, give --kit KIT."
            where = f"no such client in the run in {folder.shown}; {_listed('its clients are', known)}."
            raise ConfigError(f"{one_line(name)}: {where}{more}")
    write_banned(folder.path, banned | set(names))
    _say(folder, banned | set(names))


def unban(run: RunArgument, names: NamesArgument) -> None:
    """Ask these clients again, from the next round on."""
    from fl_dp.federation.server.left_out import read_banned, write_banned

    folder = _going_on(run)
    banned = read_banned(folder.path)
    for name in names:
        if name not in banned:
            raise ConfigError(
                f"{one_line(name)}: is not banned; {_listed('the banned clients are', banned)}."
            )
    write_banned(folder.path, banned - set(names))
    _say(folder, banned - set(names))


def _going_on(run: Path) -> RunFolder:
    folder = RunFolder(run.absolute())
    check_going_on(folder)
    return folder


def _known(folder: RunFolder, kit: Path | None) -> frozenset[str]:
    """Clients that have registered in the run, and the sites of the kit's roster."""
    from fl_dp.federation.server.run_record import kept_state  # late: imports Flower
    from fl_dp.kits.kit import trusted_roster

    state = kept_state(folder.path)
    found = {client.name for client in state.clients} if state else set()
    if kit is not None:
        check_whose_kit(kit, server=True)
        found |= {site.name for site in trusted_roster(kit).sites}
    return frozenset(found)


def _say(folder: RunFolder, banned: Iterable[str]) -> None:
    say(f"{folder.shown}: {_listed('banned from the next round on:', banned)}")


def _listed(words: str, names: Iterable[str]) -> str:
    return f"{words} {', '.join(map(one_line, sorted(names))) or 'none'}"
