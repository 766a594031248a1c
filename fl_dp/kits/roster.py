"""The roster: the federation, its server, its sites with their keys, and until when this is valid.

The authority signs it. Every kit holds all of it, so nobody has to trust the server about who takes part.
"""

import dataclasses
import ipaddress
import json
import re
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from fl_dp.errors import ConfigError
from fl_dp.kits.certificates import check_text
from fl_dp.kits.keys import SigningKey, fingerprint, is_public_key, is_signed, write_own
from fl_dp.schema import EXACT, Range, UnfitError, canonical, read

Kind = TypeVar("Kind")
PURPOSE = "roster"
FILE = "roster.json"  # its name in a kit
MOST_BYTES = 16 * 2**20
_MOST_REQUEST_BYTES = 2**16
_REQUEST = "join request"
_MOST_CHARACTERS, _MOST_SHOWN = 64, 80  # of a name, and of one in an error
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?")


@dataclass(frozen=True, slots=True)
class Site:
    """A site that may take part. key: its public key, which identifies it; name: its label in reports."""

    name: str
    key: str


@dataclass(frozen=True, slots=True)
class Roster:
    """The signed content.

    serial: higher in each new roster. expires: a time, ISO 8601 with its zone. authority, server: public
    keys. addresses: HOST:PORT of the server, in the order in which sites try them. certificate: PEM, of the
    authority that signs the server's TLS certificate.
    """

    federation: str
    serial: Annotated[int, Range(1, EXACT - 1)]
    expires: str
    authority: str
    server: str
    addresses: tuple[str, ...]
    sites: tuple[Site, ...]
    certificate: str

    def site_of(self, key: str) -> Site | None:
        """The site with that public key."""
        return next((site for site in self.sites if site.key == key), None)

    def is_over(self, now: datetime | None = None) -> bool:
        return (now or datetime.now(UTC)) >= datetime.fromisoformat(self.expires)

    def save(self, path: Path, key: SigningKey) -> None:
        """Write the file, signed by the authority's `key`."""
        _write_signed(path, "roster", PURPOSE, dataclasses.asdict(self), key)

    @classmethod
    def read(cls, path: Path, authority: str | None = None) -> Self:
        """The roster in `path`; ConfigError unless `authority` has signed it (None: whoever it names)."""
        return cls.parse(read_bounded(path, MOST_BYTES), path, authority)

    @classmethod
    def parse(cls, content: bytes, path: Path, authority: str | None = None) -> Self:
        """As `read`, for content already read from `path`, so that what is checked is also what is stored."""
        roster = _read_signed(cls, content, path, "roster", PURPOSE, "authority")
        _check(path, roster)
        if authority is not None and roster.authority != authority:
            raise ConfigError(
                f"{path}: signed by another authority, {fingerprint(roster.authority)}; "
                f"this kit, or --authority, trusts {fingerprint(authority)}. Accept it only after you have "
                "asked the authority by telephone."
            )
        return roster


def expiry(days: float, now: datetime | None = None) -> str:
    """The time in `days` days."""
    return ((now or datetime.now(UTC)) + timedelta(days=days)).isoformat(timespec="seconds")


def write_join_request(path: Path, name: str, key: SigningKey) -> None:
    """Write the site's name and public key, signed with the key: only its holder can request to join."""
    _write_signed(path, "request", _REQUEST, {"name": check_name(name, "site"), "key": key.public}, key)


def read_join_request(path: Path) -> Site:
    """The site that asks to join; ConfigError unless it has signed its request."""
    site = _read_signed(Site, read_bounded(path, _MOST_REQUEST_BYTES), path, "request", _REQUEST, "key")
    check_name(site.name, f"{path}: site")
    return site


def check_sites(sites: tuple[Site, ...], where: str, taken: tuple[str, ...] = ()) -> None:
    """ConfigError for two sites with the same name, ignoring case, or with the same key.

    taken: keys of others, which no site may have.
    """
    for what, values in (
        ("name", [site.name.casefold() for site in sites]),
        ("key", [*taken, *(site.key for site in sites)]),
    ):
        twice = [value for value, count in Counter(values).items() if count > 1]
        if twice:
            raise ConfigError(f"{where}: two sites have the {what} {twice[0]}; each site needs its own.")


def read_bounded(path: Path, most: int) -> bytes:
    """The content of a plain file; ConfigError if it is not a regular file, or longer than `most` bytes."""
    try:
        if path.is_dir():
            there = f" in it: {path / FILE}" if (path / FILE).is_file() else ""
            raise ConfigError(f"{path}: is a folder; name the file{there}.")
        if not path.is_file():  # reading a pipe could block forever
            raise ConfigError(f"{path}: {'is not a regular file' if path.exists() else 'no such file'}.")
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}.") from None
    if len(content) > most:
        raise ConfigError(f"{path}: longer than {most} bytes, too long for a roster or join request.")
    return content


def _write_signed(path: Path, name: str, purpose: str, body: dict[str, Any], key: SigningKey) -> None:
    table = {name: body, "signature": key.sign(purpose, canonical(body).encode()).hex()}
    write_own(path, json.dumps(table, indent=2).encode() + b"\n")


def _read_signed(kind: type[Kind], content: bytes, path: Path, name: str, purpose: str, signer: str) -> Kind:
    """The `kind` in the table `name` of the file, signed by the key in its field `signer`."""
    try:
        table = json.loads(content.decode("utf-8"))
        body, signature = table[name], bytes.fromhex(table["signature"])
        key, signed = body[signer], canonical(body).encode()
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ConfigError(f"{path}: not a readable {purpose}: it is another file, or damaged.") from None
    if not is_public_key(key) or not is_signed(key, purpose, signed, signature):
        raise ConfigError(f"{path}: its signature is not valid; ask for the {purpose} again.")
    try:
        return read(kind, dict(body))
    except UnfitError as error:
        raise ConfigError(f"{path}: not a {purpose} of this fl_dp: {error.words}.") from None


def _check(path: Path, roster: Roster) -> None:
    """ConfigError for values that no authority of fl_dp writes, although their types are right."""
    keys = (roster.authority, roster.server, *(site.key for site in roster.sites))
    if not roster.addresses or not all(map(is_public_key, keys)) or not _is_time(roster.expires):
        raise ConfigError(f"{path}: not a roster of this fl_dp.")
    try:
        check_text(roster.certificate)
    except ValueError as error:
        raise ConfigError(f"{path}: not a roster of this fl_dp ({type(error).__name__}).") from None
    for address in roster.addresses:
        split_address(address, f"{path}: addresses")
    for site in roster.sites:
        check_name(site.name, "site")
    check_sites(roster.sites, str(path), taken=(roster.authority, roster.server))
    check_name(roster.federation, f"{path}: federation")


def _is_time(text: str) -> bool:
    """Whether it is a UTC time in canonical form; it is printed as it stands."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return False
    return time.tzinfo == UTC and time.isoformat(timespec="seconds") == text


def check_name(name: object, what: str) -> str:
    """The name; ConfigError unless it is a short word of letters and digits, with . _ - only inside it."""
    if not isinstance(name, str) or len(name) > _MOST_CHARACTERS or not _NAME.fullmatch(name):
        shown = repr(name[:_MOST_SHOWN]) if isinstance(name, str) else type(name).__name__
        raise ConfigError(
            f"{what} {shown}: expected at most {_MOST_CHARACTERS} letters, digits, '.', '_' or '-', "
            "the first and last a letter or digit."
        )
    return name


def split_address(address: str, where: str) -> tuple[str, int]:
    """Split 'host:port', with an IPv6 host in brackets; ConfigError for anything else."""
    host, colon, port = address.rpartition(":")
    is_port = port.isascii() and port.isdecimal() and len(port) <= 5 and 0 < int(port) < 2**16
    if not (colon and is_port and _is_host(host)):
        raise ConfigError(
            f"{where}: {address[:_MOST_SHOWN]}: expected HOST:PORT, such as server.example.org:9092 or "
            "[2001:db8::1]:9092."
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def _is_host(text: str) -> bool:
    """A host's name, an IPv4 address, or an IPv6 address in brackets."""
    is_ipv6 = text.startswith("[") and text.endswith("]")
    if not is_ipv6 and not text.rpartition(".")[2].isdecimal():
        return _HOST.fullmatch(text) is not None and ".." not in text
    try:
        return ipaddress.ip_address(text[1:-1] if is_ipv6 else text).version == (6 if is_ipv6 else 4)
    except ValueError:
        return False
