"""Makes a federation: its authority, the server's kit, and rosters of the sites that have asked to join."""

import dataclasses
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from fl_dp.errors import ConfigError
from fl_dp.kits.certificates import make_authority, make_server
from fl_dp.kits.keys import SigningKey
from fl_dp.kits.kit import ROSTER, SERVER_KEY, TLS_CERTIFICATE, TLS_KEY, accept, own_folder
from fl_dp.kits.names import check_name
from fl_dp.kits.roster import Roster, Site, check_sites, expiry, read_join_request

AUTHORITY, SERVER = "authority", "server"
_AUTHORITY_KEY, _CA_KEY, _CA = "authority.key", "ca.key", "ca.crt"
_DAYS = 365
_MOST_DAYS = 3650
_KEYS = {"federation", "addresses", "requests", "valid-days"}


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a federation.toml says. addresses: HOST:PORT. sites: of the join requests that it names."""

    federation: str
    addresses: tuple[str, ...]
    sites: tuple[Site, ...]
    days: int

    @classmethod
    def read(cls, path: Path) -> Self:
        """ConfigError for what is missing, unknown or of the wrong type."""
        try:
            table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"{path}: not a readable TOML file: {error}") from None
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
                f"{path}: addresses: name at least one HOST:PORT by which sites reach the server."
            )
        for address in addresses:
            split_address(address, f"{path}: addresses")
        sites = tuple(read_join_request(path.parent / name) for name in _texts(path, table, "requests"))
        check_sites(sites, str(path))
        return cls(check_name(table.get("federation"), f"{path}: federation"), addresses, sites, days)


def provision(wishes: Wishes, folder: Path) -> Roster:
    """Make the federation in `folder`, or its next roster if it is there; returns the roster.

    `authority/` is to be kept offline, `server/` goes to the server, `roster.json` to all.
    """
    own_folder(folder)
    authority, server = folder / AUTHORITY, folder / SERVER
    serial = 1
    if (authority / _AUTHORITY_KEY).exists():
        key = SigningKey.load(authority / _AUTHORITY_KEY)
        before = Roster.read(folder / ROSTER, key.public)
        serial = before.serial + 1
        if before.federation != wishes.federation:
            raise ConfigError(f"{folder}: holds the federation {before.federation}; name another folder.")
    else:
        key = SigningKey.generate()
        for made in (authority, server):
            own_folder(made)
        make_authority(wishes.federation, _MOST_DAYS, authority / _CA, authority / _CA_KEY)
        SigningKey.generate().save(server / SERVER_KEY)
        key.save(authority / _AUTHORITY_KEY)
    hosts = [split_address(address, "addresses")[0] for address in wishes.addresses]
    make_server(
        hosts, wishes.days, authority / _CA, authority / _CA_KEY, server / TLS_CERTIFICATE, server / TLS_KEY
    )
    roster = Roster(
        federation=wishes.federation,
        serial=serial,
        expires=expiry(wishes.days),
        authority=key.public,
        server=SigningKey.load(server / SERVER_KEY).public,
        addresses=wishes.addresses,
        sites=wishes.sites,
        certificate=(authority / _CA).read_text(encoding="ascii"),
    )
    roster.save(folder / ROSTER, key)
    return accept(server, folder / ROSTER, key.public)


def with_site(folder: Path, site: Site) -> Roster:
    """The next roster of the federation in `folder`, which has that site too; for keys that are at hand."""
    key = SigningKey.load(folder / AUTHORITY / _AUTHORITY_KEY)
    before = Roster.read(folder / ROSTER, key.public)
    if before.site_of(site.key) == site:
        return before
    sites = (*before.sites, site)
    check_sites(sites, str(folder / ROSTER))
    roster = dataclasses.replace(before, serial=before.serial + 1, sites=sites)
    roster.save(folder / ROSTER, key)
    return accept(folder / SERVER, folder / ROSTER, key.public)


def split_address(address: str, where: str) -> tuple[str, int]:
    """'host:port' in two, an IPv6 host in brackets; ConfigError when it is not that."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (host and colon and port.isascii() and port.isdecimal() and 0 < int(port) < 2**16):
        raise ConfigError(f"{where}: {address}: expected HOST:PORT, such as server.example.org:9092.")
    return host, int(port)


def _texts(path: Path, table: dict[str, Any], key: str) -> list[str]:
    values = table.get(key, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ConfigError(f"{path}: {key}: expected a list of texts.")
    return values
