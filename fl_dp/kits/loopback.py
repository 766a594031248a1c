"""Keys for a federation on one machine, which its user never sees: made when first needed.

They lie in a folder that only its owner may enter. Whoever can write there may join: that is the same user,
and nobody else on the machine.
"""

from pathlib import Path

from fl_dp.durable_files import one_at_a_time
from fl_dp.kits.keys import SigningKey
from fl_dp.kits.kit import ROSTER, SITE_KEY, TRUSTED, ServerKit, SiteKit, accept, own_folder, trusted_roster
from fl_dp.kits.names import check_name
from fl_dp.kits.provision import SERVER, Wishes, provision, with_site
from fl_dp.kits.roster import Roster, Site

_DAYS = 3650
_SITES = "sites"


def loopback_server(folder: Path, port: int) -> ServerKit:
    """The server's kit of the federation in `folder`, made if it is not there."""
    own_folder(folder)
    with one_at_a_time(folder / ".lock"):
        if not (folder / SERVER / TRUSTED).exists():
            provision(Wishes("loopback", (f"127.0.0.1:{port}",), (), _DAYS), folder)
    return ServerKit.load(folder / SERVER)


def loopback_site(folder: Path, name: str) -> SiteKit:
    """The kit of the site `name` of the federation in `folder`, which it joins by being asked for."""
    kit = folder / _SITES / check_name(name, "site")
    own_folder(kit)
    with one_at_a_time(folder / ".lock"):
        if not (kit / SITE_KEY).exists():
            SigningKey.generate().save(kit / SITE_KEY)
        key = SigningKey.load(kit / SITE_KEY)
        roster: Roster = with_site(folder, Site(name, key.public))
        accept(kit, folder / ROSTER, roster.authority)
    return SiteKit(kit, name, key, trusted_roster(kit))
