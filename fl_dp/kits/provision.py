"""Makes a federation: its authority, the server's kit, and rosters of the sites that asked to join.

A federation on one machine (`LOOPBACK`) is made when it is first needed, and its user never sees the keys.
Only its owner can open its folder: whoever can write there may join.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from fl_dp.config.files import read_toml
from fl_dp.durable_files import one_at_a_time
from fl_dp.errors import ConfigError
from fl_dp.kits.certificates import check_in_time, make_authority, make_server
from fl_dp.kits.keys import SigningKey, write_own
from fl_dp.kits.kit import (
    AUTHORITY_KEY,
    CA_KEY,
    README,
    ROSTER,
    SERVER_KEY,
    SITE_KEY,
    TLS_CERTIFICATE,
    TLS_KEY,
    TRUSTED,
    ServerKit,
    SiteKit,
    accept,
    new_folder,
    own_folder,
    trusted_roster,
)
from fl_dp.kits.readme import server_text
from fl_dp.kits.roster import Roster, Site, check_name, check_sites, expiry, read_join_request, split_address

AUTHORITY, SERVER, _SITES = "authority", "server", "sites"
LOOPBACK = "loopback"  # the federation of one machine; its roster grows with each site that starts
_CA = "ca.crt"
_DAYS = 365
_MOST_DAYS = 3650
_KEYS = {"federation", "addresses", "requests", "valid-days"}


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a federation.toml says. addresses: HOST:PORT. sites: those of the join requests it names."""

    federation: str
    addresses: tuple[str, ...]
    sites: tuple[Site, ...]
    days: int

    @classmethod
    def read(cls, path: Path) -> Self:
        """ConfigError for a key that is missing, unknown or of the wrong type."""
        table = read_toml(path, named=True)
        if unknown := sorted(table.keys() - _KEYS):
            raise ConfigError(
                f"{path}: unknown key {unknown[0]!r}, expected one of {', '.join(sorted(_KEYS))}."
            )
        days = table.get("valid-days", _DAYS)
        if type(days) is not int or not 0 < days <= _MOST_DAYS:
            raise ConfigError(f"{path}: valid-days = {days!r}: expected 1 to {_MOST_DAYS}.")
        addresses = tuple(_texts(path, table, "addresses"))
        if not addresses:
            raise ConfigError(
                f"{path}: addresses: name at least one HOST:PORT at which sites reach the server."
            )
        for address in addresses:
            host, _ = split_address(address, f"{path}: addresses")
            if host in ("0.0.0.0", "::"):
                raise ConfigError(f"{path}: addresses: {address}: name an address that sites can reach.")
        sites = tuple(read_join_request(path.parent / name) for name in _texts(path, table, "requests"))
        check_sites(sites, str(path))
        return cls(check_name(table.get("federation", ""), f"{path}: federation"), addresses, sites, days)


def provision(wishes: Wishes, folder: Path, *, new_server_key: bool = False) -> Roster:
    """Make the federation in `folder`, or its next roster if it exists; returns the roster.

    Keep `authority/` offline, copy `server/` to the server and `roster.json` to everybody. If this is
    interrupted, the next call completes it. new_server_key: the server's key was stolen or lost.
    """
    new_folder(folder)
    authority, server = folder / AUTHORITY, folder / SERVER
    for made in (authority, server):
        own_folder(made)
    with one_at_a_time(authority / ".lock"):
        key = _authority_key(wishes, authority)
        before = _newest(folder, key.public)
        if before and before.federation != wishes.federation:
            raise ConfigError(f"{folder}: holds the federation {before.federation}; name another folder.")
        ends = check_in_time(authority / _CA, remedy="a new federation, in a new folder")
        public = _server_key(before, server, new=new_server_key)
        check_sites(wishes.sites, str(folder), taken=(key.public, public))
        hosts = [split_address(address, "addresses")[0] for address in wishes.addresses]
        make_server(
            hosts,
            wishes.days,
            authority / _CA,
            authority / CA_KEY,
            server / TLS_CERTIFICATE,
            server / TLS_KEY,
        )
        roster = Roster(
            federation=wishes.federation,
            serial=before.serial + 1 if before else 1,
            expires=min(expiry(wishes.days), ends.isoformat(timespec="seconds")),
            authority=key.public,
            server=public,
            addresses=wishes.addresses,
            sites=wishes.sites,
            certificate=(authority / _CA).read_text(encoding="ascii"),
        )
        return _publish(roster, folder, key)


def _authority_key(wishes: Wishes, authority: Path) -> SigningKey:
    """The key that signs rosters; it is made, with the certificate, if missing."""
    if (authority / AUTHORITY_KEY).exists():
        return SigningKey.load(authority / AUTHORITY_KEY)
    make_authority(wishes.federation, _MOST_DAYS, authority / _CA, authority / CA_KEY)
    key = SigningKey.generate()
    key.save(authority / AUTHORITY_KEY)  # last: without it, all is made anew
    return key


def _newest(folder: Path, authority: str) -> Roster | None:
    """The newest roster so far, the highest serial of all copies; None before the first."""
    files = [part / ROSTER for part in (folder / AUTHORITY, folder, folder / SERVER)]
    found = [Roster.read(file, authority) for file in files if file.exists()]
    return max(found, key=lambda roster: roster.serial, default=None)


def _server_key(before: Roster | None, server: Path, *, new: bool) -> str:
    """The server's public key. If its kit was moved to the server, the key of the roster before."""
    path = server / SERVER_KEY
    if path.exists() and not new:
        return SigningKey.load(path).public
    if before and not new:
        return before.server
    key = SigningKey.generate()
    key.save(path)
    return key.public


def _publish(roster: Roster, folder: Path, key: SigningKey) -> Roster:
    """Write the roster, the authority's copy first, so that no serial is used twice."""
    roster.save(folder / AUTHORITY / ROSTER, key)
    roster.save(folder / ROSTER, key)
    write_own(folder / SERVER / README, server_text(roster.federation).encode())
    return accept(folder / SERVER, folder / ROSTER, key.public)


def with_site(folder: Path, site: Site) -> Roster:
    """The next roster of the federation in `folder`, with that site added, without a join request."""
    key = SigningKey.load(folder / AUTHORITY / AUTHORITY_KEY)
    before = _newest(folder, key.public)
    if before is None:
        raise ConfigError(f"{folder}: holds no federation; delete it.")
    check_name(site.name, "site")
    if before.site_of(site.key) == site:
        return _publish(before, folder, key)  # an earlier call may have been interrupted
    sites = (*before.sites, site)
    check_sites(sites, str(folder / ROSTER))
    return _publish(dataclasses.replace(before, serial=before.serial + 1, sites=sites), folder, key)


def _texts(path: Path, table: dict[str, Any], key: str) -> list[str]:
    values = table.get(key, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ConfigError(f"{path}: {key}: expected a list of strings.")
    return values


def loopback_server(folder: Path, port: int) -> ServerKit:
    """The server's kit of the federation in `folder`, made if missing."""
    own_folder(folder)
    with one_at_a_time(folder / ".lock"):
        if not (folder / SERVER / TRUSTED).exists():
            provision(Wishes(LOOPBACK, (f"127.0.0.1:{port}",), (), _MOST_DAYS), folder)
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
