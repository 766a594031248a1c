"""`fl-dp provision`, `join-request` and `accept`: how a federation gets its keys."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fl_dp.cli.common import asked_yes, command, say
from fl_dp.errors import ConfigError
from fl_dp.kits.keys import fingerprint, is_public_key
from fl_dp.kits.kit import SERVER_KEY, SITE_KEY, SiteKit, accept, believed, new_site_kit
from fl_dp.kits.provision import Wishes, provision
from fl_dp.kits.roster import Roster, read_join_request

KitOption = Annotated[Path, typer.Option("--kit", help="Folder of the kit.")]


@command()
def provision_federation(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Description of the federation, a TOML file.")],
    out: Annotated[
        Path, typer.Option(help="Folder of the federation; use the same folder for its next roster.")
    ],
    new_server_key: Annotated[
        bool,
        typer.Option(
            "--new-server-key", help="Give the server a new key, after its old one was stolen or lost."
        ),
    ] = False,
) -> None:
    """Make a federation's keys and roster, on an offline machine.

    For the federation's administrator; run it again to make the next roster."""
    roster = provision(Wishes.read(file), out, new_server_key=new_server_key)
    _say_roster(roster)
    for site in roster.sites:
        say(f"  {site.name}: {fingerprint(site.key)}")
    say("compare each key with its site, over a channel that you trust, before you send the roster")
    say(f"keep offline:    {out / 'authority'}")
    say(f"to the server:   {out / 'server'} (secret)")
    say(f"to each site:    {out / 'roster.json'} (not secret)")
    say(
        f"authority {fingerprint(roster.authority)}: tell it to each site, over a channel that you both trust"
    )


@command()
def join_request(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The site's name.")],
    kit: KitOption,
) -> None:
    """Make a site's key and its request to join a federation.

    The key stays in the new kit; send the request to the authority."""
    request = new_site_kit(kit, name)
    say(f"send to the authority: {request} (not secret); everything else in {kit} stays here")
    say(
        f"this site's key {fingerprint(read_join_request(request).key)}: tell it to the authority over a "
        "channel that you trust"
    )


@command()
def accept_roster(
    roster: Annotated[Path, typer.Argument(metavar="ROSTER", help="File roster.json, from the authority.")],
    kit: KitOption,
    authority: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Fingerprint of the authority, for the first roster [default: ask].",
        ),
    ] = None,
) -> None:
    """Add a roster to a kit.

    The first one is accepted after you have compared its authority, later ones if they are newer."""
    if not any((kit / name).is_file() for name in (SITE_KEY, SERVER_KEY)):
        raise ConfigError(f"--kit {kit}: has no key; a site first makes its own with fl-dp join-request.")
    known = _key(authority)
    if known is None and believed(kit) is None:
        known = _agreed(roster)
    _say_roster(accept(kit, roster, known))
    if (kit / SITE_KEY).is_file():
        say(f"this site is {SiteKit.load(kit).name}")


def _key(text: str | None) -> str | None:
    """The key in the text, without the spaces of a fingerprint; ConfigError if it is not a key."""
    key = None if text is None else "".join(text.split()).lower()
    if key is not None and not is_public_key(key):
        raise ConfigError(
            "--authority: expected 64 digits from 0 to 9 and a to f, as fl-dp provision shows them."
        )
    return key


def _agreed(path: Path) -> str:
    """The roster's authority, if the user confirms that it is the right one."""
    found = Roster.read(path)
    say(f"{path}: federation {found.federation}, signed by the authority")
    say(f"  {fingerprint(found.authority)}")
    if not sys.stdin.isatty():
        raise ConfigError("nobody can answer here; name the authority that you trust: --authority KEY.")
    if not asked_yes("did the authority tell you this fingerprint?"):
        raise ConfigError(f"{path}: not accepted.")
    return found.authority


def _say_roster(roster: Roster) -> None:
    names = ", ".join(site.name for site in roster.sites) or "none yet"
    say(
        f"federation {roster.federation}, roster {roster.serial}, until {roster.expires[:10]}; sites: {names}"
    )


def check_whose_kit(folder: Path, *, server: bool) -> None:
    """Raise ConfigError if the kit is a site's and should be the server's, or the reverse."""
    own, other = (SERVER_KEY, SITE_KEY) if server else (SITE_KEY, SERVER_KEY)
    if (folder / own).exists() or not (folder / other).exists():
        return
    if server:
        raise ConfigError(
            f"--kit {folder}: this is the kit of a site; to join, use fl-dp client --kit {folder}. The "
            'server\'s kit is the folder "server" that fl-dp provision made.'
        )
    raise ConfigError(
        f"--kit {folder}: this is the kit of the server; to serve, use fl-dp server --kit {folder}. A site "
        "makes its kit with fl-dp join-request."
    )
