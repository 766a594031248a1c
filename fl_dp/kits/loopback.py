"""Keys for a federation on one machine. They are made when first needed; the user never sees them.

Their folder is open to its owner alone. Whoever can write there may join, and that is this user alone.
"""

from collections.abc import Sequence
from pathlib import Path

from fl_dp.durable_files import one_at_a_time
from fl_dp.kits.keys import SigningKey
from fl_dp.kits.kit import ROSTER, SITE_KEY, TRUSTED, ServerKit, SiteKit, accept, own_folder, trusted_roster
from fl_dp.kits.names import check_name
from fl_dp.kits.provision import SERVER, Wishes, provision, with_site
from fl_dp.kits.roster import Roster, Site

FEDERATION = "loopback"  # its roster grows with each site that starts
_DAYS = 3650
_SITES = "sites"


def loopback_server(folder: Path, port: int) -> ServerKit:
    """The server's kit of the federation in `folder`, made if missing."""
    own_folder(folder)
    with one_at_a_time(folder / ".lock"):
        if not (folder / SERVER / TRUSTED).exists():
            provision(Wishes(FEDERATION, (f"127.0.0.1:{port}",), (), _DAYS), folder)
    return ServerKit.load(folder / SERVER)


def loopback_site(folder: Path, name: str) -> SiteKit:
    """The kit of the site `name` in the federation in `folder`; the site joins if it is new."""
    return loopback_sites(folder, [name])[0]


def loopback_sites(folder: Path, names: Sequence[str]) -> list[SiteKit]:
    """The kits of these sites. Every site of the federation then has the same roster, with all of them."""
    kits = [folder / _SITES / check_name(name, "site") for name in names]
    keys = []
    with one_at_a_time(folder / ".lock"):
        for kit in kits:
            own_folder(kit)
            if not (kit / SITE_KEY).exists():
                SigningKey.generate().save(kit / SITE_KEY)
            keys.append(SigningKey.load(kit / SITE_KEY))
        roster: Roster | None = None
        for name, key in zip(names, keys, strict=True):
            roster = with_site(folder, Site(name, key.public))
        assert roster is not None  # there is one name at least
        for kit in (folder / _SITES).iterdir():
            accept(kit, folder / ROSTER, roster.authority)
    return [
        SiteKit(kit, name, key, trusted_roster(kit)) for kit, name, key in zip(kits, names, keys, strict=True)
    ]
