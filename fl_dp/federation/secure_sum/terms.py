"""What the members of one attempt must agree on to the last bit, and the digest that they sign.

The server proposes the head; each member signs it together with its fresh keys. The terms are the head with
all members and keys. Each member signs the digest of the terms before anybody masks anything.
"""

import hashlib
import math
from collections.abc import Collection, Mapping
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import Annotated, Any, Self

from fl_dp.errors import ConfigError, DeclinedError
from fl_dp.federation.secure_sum.keys import KEY_BYTES, PREFIX, are_distinct
from fl_dp.federation.secure_sum.limits import Limits, check_threshold, checked_shares
from fl_dp.kits.keys import is_signed
from fl_dp.records import MOST_MEMBERS
from fl_dp.reporting.wording import counted
from fl_dp.schema import Digits, Range, canonical, encoded, length, read

ATTEMPT_DIGITS = 32
MODULUS = "2^64"
MEMBERS = Range(0, MOST_MEMBERS)  # entries of a list by place
MOST_NUMBERS = 2**31  # of a vector
KEYS_PURPOSE = "secure sum keys"  # of a signature
Key = Annotated[bytes, length(KEY_BYTES)]
Signature = Annotated[bytes, length(64)]


class Message:
    __slots__ = ()

    def to_fields(self) -> dict[str, Any]:
        return encoded(self)

    @classmethod
    def from_fields(cls, found: Mapping[str, Any]) -> Self:
        """ConfigError for what no honest sender sends."""
        return read(cls, found)


@dataclass(frozen=True)
class Head(Message):
    """All terms but the members.

    attempt: fresh and random. plan: digest of all that members share of the round's plan; weights: digest of
    the model sent to them. sensitivity: S, by how much one example moves the sum, rounding included;
    noise_multiplier: sigma, the deviation of the whole noise over S. spacing, levels: of the grid. numbers:
    the length of a vector. share_deviation: of one member's share of noise, not in grid units.
    clients, dropouts, colluders, threshold: K, d, c, t.
    """

    run: Annotated[str, Range(1, 200)]
    server_round: Annotated[int, Range(0, 2**31)]
    attempt: Annotated[str, Digits(ATTEMPT_DIGITS)]
    plan: Annotated[str, Digits(64)]
    weights: Annotated[str, Digits(64)]
    max_grad_norm: Annotated[float, Range(1e-100, 1e100)]
    sensitivity: Annotated[float, Range(1e-100, 1e100)]
    noise_multiplier: Annotated[float, Range(1e-100, 1e100)]
    spacing: Annotated[float, Range(1e-100, 1e100)]
    levels: Annotated[int, Range(1, 16)]
    numbers: Annotated[int, Range(1, MOST_NUMBERS)]
    share_deviation: Annotated[float, Range(1e-100, 1e100)]
    modulus: Annotated[str, Range(1, 20)]
    sampler: Annotated[str, Range(1, 50)]
    clients: Annotated[int, Range(1, MOST_MEMBERS)]
    dropouts: Annotated[int, Range(0, MOST_MEMBERS)]
    colluders: Annotated[int, Range(0, MOST_MEMBERS)]
    threshold: Annotated[int, Range(1, MOST_MEMBERS)]

    @property
    def shares(self) -> int:
        """n = K - d - c, the shares of noise that make up the whole; DeclinedError if there is none."""
        return checked_shares(self.clients, self.dropouts, self.colluders)

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 over the canonical form of all fields."""
        return _digest("head", self.to_fields())


@dataclass(frozen=True, slots=True)
class Member:
    """One client of an attempt. name: the server's name for it. site: its public signing key, in hex.

    mask_key, share_key, seed_key: fresh public keys; seed_key belongs to the seed of its own mask. signature:
    the site's, over the head and these three.
    """

    name: str
    site: str
    mask_key: bytes
    share_key: bytes
    seed_key: bytes
    signature: bytes

    @property
    def keys(self) -> tuple[bytes, bytes, bytes]:
        return self.mask_key, self.share_key, self.seed_key

    def is_signed(self, head: Head) -> bool:
        return is_signed(self.site, KEYS_PURPOSE, keys_body(head, *self.keys), self.signature)


@dataclass(frozen=True, slots=True)
class _Columns:
    """The members as they are sent: a column for each field of `Member`, in the same order."""

    names: Annotated[tuple[Annotated[str, Range(1, 200)], ...], MEMBERS]
    sites: Annotated[tuple[Annotated[str, Digits(64)], ...], MEMBERS]
    mask_keys: Annotated[tuple[Key, ...], MEMBERS]
    share_keys: Annotated[tuple[Key, ...], MEMBERS]
    seed_keys: Annotated[tuple[Key, ...], MEMBERS]
    signatures: Annotated[tuple[Signature, ...], MEMBERS]


@dataclass(frozen=True)
class Terms:
    """members: K, sorted by their site keys. A member's place in this order is its number in all messages."""

    head: Head
    members: tuple[Member, ...]

    def __post_init__(self) -> None:
        sites = [member.site for member in self.members]
        if len(sites) != self.head.clients or sites != sorted(set(sites)):
            raise ConfigError(
                f"Terms of {counted(self.head.clients, 'client')}: expected that many sites, in order, once."
            )

    def place_of(self, site: str) -> int:
        """The site's place; ConfigError if it is no member."""
        for place, member in enumerate(self.members):
            if member.site == site:
                return place
        raise ConfigError(f"Terms without the site {site[:16]}...: it is no member of this attempt.")

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 over the canonical form of head and members; an agreement signs it."""
        return _digest("terms", self.to_fields())

    def to_fields(self) -> dict[str, Any]:
        columns = _Columns(*zip(*map(astuple, self.members), strict=True))
        return {**self.head.to_fields(), **encoded(columns)}

    @classmethod
    def from_fields(cls, found: Mapping[str, Any]) -> Self:
        """ConfigError for what no honest server sends. Does not check signatures: see `check_terms`."""
        ours = set(_Columns.__dataclass_fields__)
        columns = read(_Columns, {name: one for name, one in found.items() if name in ours})
        head = Head.from_fields({name: one for name, one in found.items() if name not in ours})
        values = [getattr(columns, name) for name in _Columns.__dataclass_fields__]
        if len({len(one) for one in values}) != 1:
            raise ConfigError("Terms whose lists of members have several lengths.")
        return cls(head, tuple(Member(*one) for one in zip(*values, strict=True)))


def keys_body(head: Head, mask_key: bytes, share_key: bytes, seed_key: bytes) -> bytes:
    """What a member signs with its fresh keys. All parts have fixed lengths."""
    return head.digest + mask_key + share_key + seed_key


def check_head(head: Head, limits: Limits) -> None:
    """DeclinedError unless the numbers make a secure sum that this client's settings allow."""
    check_threshold(head.clients, head.dropouts, head.colluders, head.threshold)
    for noun, what, found, least in (
        ("client", " in a sum", head.clients - head.dropouts, limits.least_clients),
        ("share", " of noise", head.shares, limits.least_shares),
        ("colluder", "", head.colluders, limits.least_colluders),
    ):
        if found < least:
            raise DeclinedError(
                f"A secure sum for {counted(found, noun)}{what}: this client's settings ask for {least}."
            )
    if head.dropouts > limits.most_dropouts:
        raise DeclinedError(
            f"A secure sum with {counted(head.dropouts, 'drop-out')}: this client's settings allow "
            f"{limits.most_dropouts}."
        )
    if head.modulus != MODULUS:
        raise DeclinedError(f"A secure sum modulo {head.modulus!r}: this client knows only {MODULUS}.")
    rounded = head.max_grad_norm + math.sqrt(head.numbers) * head.spacing
    if head.sensitivity < rounded * (1 - 1e-12):
        raise DeclinedError(
            f"A secure sum of sensitivity {head.sensitivity:g}: clipping to {head.max_grad_norm:g} on a grid "
            f"of {head.spacing:g} needs {rounded:g}."
        )
    whole = head.share_deviation * math.sqrt(head.shares)
    if whole < head.noise_multiplier * head.sensitivity * (1 - 1e-12):
        raise DeclinedError(
            f"A secure sum of {counted(head.shares, 'share')} of noise with a deviation of {whole:g} "
            "together: expected noise_multiplier times sensitivity, "
            f"{head.noise_multiplier * head.sensitivity:g}."
        )


def check_terms(terms: Terms, limits: Limits, roster: Collection[str], own: str) -> None:
    """DeclinedError unless this client accepts these terms.

    roster: the site keys of the client's own kit, so that the server cannot add members; own: its own key.
    """
    head = terms.head
    check_head(head, limits)
    if own not in (member.site for member in terms.members):
        raise DeclinedError("Terms of a secure sum without this client.")
    if not are_distinct([key for member in terms.members for key in member.keys]):
        raise DeclinedError("Terms of a secure sum that hold a key twice.")
    for place, member in enumerate(terms.members):
        if member.site not in roster:
            raise DeclinedError(
                f"Terms of a secure sum with member {place}, whose site {member.site[:16]}... is not in this "
                "client's roster; give every site the same kit."
            )
        if not member.is_signed(head):
            raise DeclinedError(
                f"Terms of a secure sum in which member {place} has not signed its keys for this attempt."
            )


def _digest(what: str, table: Mapping[str, Any]) -> bytes:
    spelled = canonical({name: _spelled(one) for name, one in table.items()}, spaced=True)
    return hashlib.sha256(PREFIX + b" " + what.encode() + b"\0" + spelled.encode()).digest()


def _spelled(value: Any) -> Any:
    """An exact and unique form: floats and bytes in hexadecimal digits, each with its type."""
    if isinstance(value, list):
        return [_spelled(one) for one in value]
    if isinstance(value, float):
        return ["float", value.hex()]
    return ["bytes", value.hex()] if isinstance(value, bytes) else value
