"""The roster: which federation, which server, which sites with which keys, until when.

Its authority has signed it. Every kit has it whole: who is in the federation is no claim of the server's.
"""

import dataclasses
import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from fl_dp.durable_files import write_whole
from fl_dp.errors import ConfigError
from fl_dp.kits.keys import SigningKey, fingerprint, is_public_key, is_signed
from fl_dp.kits.names import check_name

PURPOSE = "roster"
MOST_BYTES = 16 * 2**20
_REQUEST = "join request"


@dataclass(frozen=True, slots=True)
class Site:
    """A site that may take part. key: its public key, which is who it is; name: what reports call it."""

    name: str
    key: str


@dataclass(frozen=True, slots=True)
class Roster:
    """What an authority has signed.

    serial: higher in each new roster. expires: a time, ISO 8601 with its zone. authority, server: public
    keys. addresses: HOST:PORT by which sites reach the server, the first one first. certificate: of the
    authority that signs the server's TLS certificate, PEM.
    """

    federation: str
    serial: int
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
        """Whether its time is over."""
        return (now or datetime.now(UTC)) >= datetime.fromisoformat(self.expires)

    def to_bytes(self, key: SigningKey) -> bytes:
        """As a file, signed by the authority's `key`."""
        body = dataclasses.asdict(self)
        table = {"roster": body, "signature": key.sign(PURPOSE, _canonical(body)).hex()}
        return json.dumps(table, indent=2).encode() + b"\n"

    def save(self, path: Path, key: SigningKey) -> None:
        content = self.to_bytes(key)
        write_whole(path, lambda file: file.write(content))

    @classmethod
    def read(cls, path: Path, authority: str | None = None) -> Self:
        """The roster in `path`; ConfigError unless `authority` has signed it (None: whoever it names)."""
        body = _signed_body(path, "roster", PURPOSE, "authority")
        roster = cls(**_fields(path, body))
        if authority is not None and roster.authority != authority:
            raise ConfigError(
                f"{path}: signed by another authority, {fingerprint(roster.authority)}; "
                f"this kit trusts {fingerprint(authority)}."
            )
        return roster


def expiry(days: float, now: datetime | None = None) -> str:
    """The time in `days` days."""
    return ((now or datetime.now(UTC)) + timedelta(days=days)).isoformat(timespec="seconds")


def write_join_request(path: Path, name: str, key: SigningKey) -> None:
    """The site's name and public key, signed by it: only who has the key can ask for it."""
    body = {"name": check_name(name, "site"), "key": key.public}
    table = {"request": body, "signature": key.sign(_REQUEST, _canonical(body)).hex()}
    content = json.dumps(table, indent=2).encode() + b"\n"
    write_whole(path, lambda file: file.write(content))


def read_join_request(path: Path) -> Site:
    """The site that asks; ConfigError unless it has signed its request."""
    body = _signed_body(path, "request", _REQUEST, "key")
    if body.keys() != {"name", "key"}:
        raise ConfigError(f"{path}: fields {sorted(body)[:9]}, expected key and name.")
    return Site(check_name(body["name"], f"{path}: site"), body["key"])


def check_sites(sites: tuple[Site, ...], where: str) -> None:
    """ConfigError for two sites of one name, in whatever letters, or of one key."""
    for what, values in (
        ("name", [site.name.casefold() for site in sites]),
        ("key", [site.key for site in sites]),
    ):
        twice = [value for value, count in Counter(values).items() if count > 1]
        if twice:
            raise ConfigError(f"{where}: two sites have the {what} {twice[0]}.")


def _canonical(body: dict[str, Any]) -> bytes:
    """The bytes that are signed: one spelling of every table."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def _signed_body(path: Path, name: str, purpose: str, signer: str) -> dict[str, Any]:
    """The table `name` of the file, signed by the key in its field `signer`."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ConfigError(f"{path}: larger than any {name} of a federation.")
        table = json.loads(path.read_text(encoding="utf-8"))
        body, signature = table[name], bytes.fromhex(table["signature"])
        key = body[signer]
    except (OSError, UnicodeDecodeError, ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{path}: no readable {purpose}: {error}.") from None
    if not is_public_key(key) or not is_signed(key, purpose, _canonical(body), signature):
        raise ConfigError(f"{path}: its signature does not hold; ask for the {purpose} again.")
    return dict(body)


def _fields(path: Path, body: dict[str, Any]) -> dict[str, Any]:
    """The roster's fields, of the types that they have."""
    names = {field.name for field in dataclasses.fields(Roster)}
    if body.keys() != names:
        raise ConfigError(f"{path}: fields {sorted(body)[:12]}, expected {sorted(names)}.")
    try:
        sites = tuple(Site(check_name(one["name"], "site"), one["key"]) for one in body["sites"])
        datetime.fromisoformat(body["expires"]).astimezone(UTC)
        texts = [body["certificate"], *body["addresses"]]
        sound = (
            type(body["serial"]) is int
            and 0 < body["serial"] < 2**63
            and all(isinstance(text, str) for text in texts)
            and all(is_public_key(key) for key in (body["server"], *(site.key for site in sites)))
            and datetime.fromisoformat(body["expires"]).tzinfo is not None
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{path}: no roster of this fl_dp: {error}.") from None
    if not sound:
        raise ConfigError(f"{path}: no roster of this fl_dp.")
    check_sites(sites, str(path))
    check_name(body["federation"], f"{path}: federation")
    return {**body, "sites": sites, "addresses": tuple(body["addresses"])}
