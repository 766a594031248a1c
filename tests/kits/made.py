"""A federation of two hospitals: what who provisions has, and the hospitals' kits."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fl_dp.kits.keys import SigningKey
from fl_dp.kits.kit import accept, new_site_kit
from fl_dp.kits.provision import Wishes, provision
from fl_dp.kits.roster import PURPOSE, Roster, read_join_request
from fl_dp.schema import canonical

SITES = ("north", "south")


@dataclass
class Made:
    """folder: of who provisions. Kits lie beside it, by the sites' names."""

    root: Path
    folder: Path

    @property
    def server(self) -> Path:
        return self.folder / "server"

    @property
    def roster(self) -> Path:
        return self.folder / "roster.json"

    @property
    def authority(self) -> SigningKey:
        return SigningKey.load(self.folder / "authority" / "authority.key")

    def kit(self, site: str) -> Path:
        return self.root / site

    def again(self, *sites: str, **options: Any) -> Roster:
        """The next roster, of these sites."""
        asked = tuple(read_join_request(self.kit(site) / f"{site}.join.json") for site in sites)
        wishes = Wishes("hospitals", ("fl.example.org:9092",), asked, 365)
        return provision(wishes, self.folder, **options)

    def signed(self, change: Callable[[dict[str, Any]], object]) -> Path:
        """A roster that the authority has signed, with a changed content."""
        body = json.loads(self.roster.read_text())["roster"]
        change(body)
        path = self.root / "odd.json"
        signature = self.authority.sign(PURPOSE, canonical(body).encode()).hex()
        path.write_text(json.dumps({"roster": body, "signature": signature}))
        return path


def federation_in(folder: Path) -> Made:
    """A federation of the sites, each of which has accepted its first roster."""
    federation = Made(folder, folder / "fed")
    for site in SITES:
        new_site_kit(federation.kit(site), site)
    roster = federation.again(*SITES)
    for site in SITES:
        accept(federation.kit(site), federation.roster, roster.authority)
    return federation
