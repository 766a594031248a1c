"""`fl-dp provision`, `join-request` and `accept`: how a federation gets its keys.

Code that reads keys is imported late, so that the other commands start without it.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fl_dp.cli.common import say
from fl_dp.errors import ConfigError

if TYPE_CHECKING:
    from fl_dp.kits.roster import Roster

KitOption = Annotated[Path, typer.Option("--kit", help="Folder of the kit.", show_default=False)]


def provision_federation(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The federation, a TOML file.", show_default=False)
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="Folder of the federation; the same one again for its next roster.", show_default=False
        ),
    ],
    new_server_key: Annotated[
        bool,
        typer.Option("--new-server-key", help="Give the server another key: its own was stolen or lost."),
    ] = False,
) -> None:
    """Make a federation, or its next roster: for who provisions, on a machine that is offline."""
    from fl_dp.kits.keys import fingerprint
    from fl_dp.kits.provision import Wishes, provision

    roster = provision(Wishes.read(file), out, new_server_key=new_server_key)
    _say_roster(roster)
    for site in roster.sites:
        say(f"  {site.name}: {fingerprint(site.key)}")
    say("compare each with its site, by a way that you trust, before the roster goes out")
    say(f"keep offline:    {out / 'authority'}")
    say(f"to the server:   {out / 'server'} (secret)")
    say(f"to each site:    {out / 'roster.json'} (not secret)")
    say(f"authority {fingerprint(roster.authority)}: tell it each site, by a way that you both trust")


def join_request(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The site's name.", show_default=False)],
    kit: KitOption,
) -> None:
    """Make a site's key in a new kit, and the request to join that is sent to who provisions."""
    from fl_dp.kits.keys import fingerprint
    from fl_dp.kits.kit import new_site_kit
    from fl_dp.kits.roster import read_join_request

    request = new_site_kit(kit, name)
    say(f"send to whoever provisions: {request} (not secret); all else in {kit} stays here")
    say(
        f"this site's key {fingerprint(read_join_request(request).key)}: tell it them by a way that you trust"
    )


def accept_roster(
    roster: Annotated[
        Path, typer.Argument(metavar="ROSTER", help="roster.json, from who provisions.", show_default=False)
    ],
    kit: KitOption,
    authority: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", help="The authority's fingerprint, for the first roster.", show_default=False
        ),
    ] = None,
) -> None:
    """Take a roster into a kit: the first one after a look at its authority, later ones if they are newer."""
    from fl_dp.kits.kit import SERVER_KEY, SITE_KEY, SiteKit, accept, believed

    if not any((kit / name).is_file() for name in (SITE_KEY, SERVER_KEY)):
        raise ConfigError(f"--kit {kit}: holds no key; a site makes its own first: fl-dp join-request.")
    known = _key(authority)
    if known is None and believed(kit) is None:
        known = _agreed(roster)
    _say_roster(accept(kit, roster, known))
    if (kit / SITE_KEY).is_file():
        say(f"this site is {SiteKit.load(kit).name}")


def _key(text: str | None) -> str | None:
    """A key, with or without the spaces that it is shown with; ConfigError if it is none."""
    from fl_dp.kits.keys import is_public_key

    key = None if text is None else "".join(text.split()).lower()
    if key is not None and not is_public_key(key):
        raise ConfigError(
            "--authority: expected 64 digits from 0 to 9 and a to f, as fl-dp provision shows them."
        )
    return key


def _agreed(path: Path) -> str:
    """The roster's authority, if the user confirms that it is the right one."""
    from fl_dp.kits.keys import fingerprint
    from fl_dp.kits.roster import Roster

    found = Roster.read(path)
    say(f"{path}: federation {found.federation}, signed by the authority")
    say(f"  {fingerprint(found.authority)}")
    if not sys.stdin.isatty():
        raise ConfigError("nobody can be asked here; name the authority that you trust: --authority KEY.")
    while (word := input("were you told this by whoever provisions? [y/n] ").strip().lower()) not in _WORDS:
        pass
    if not word.startswith("y"):
        raise ConfigError(f"{path}: not accepted.")
    return found.authority


_WORDS = ("y", "yes", "n", "no")


def _say_roster(roster: "Roster") -> None:
    names = ", ".join(site.name for site in roster.sites) or "none yet"
    say(
        f"federation {roster.federation}, roster {roster.serial}, until {roster.expires[:10]}; sites: {names}"
    )
