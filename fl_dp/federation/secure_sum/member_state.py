"""A member's state between the stages of an attempt, as bytes: in memory only, never on a disk."""

import json
from dataclasses import dataclass, field
from typing import Any, Self

from fl_dp.errors import ConfigError
from fl_dp.federation.secure_sum.terms import Head, Terms

ENDED = "ended"
_VERSION = 2
_BYTES = "bytes"


@dataclass(slots=True)
class MemberState:
    """secrets: by name, each until it is no longer needed. shares: by place, of a member's seed and mask key.

    survivors: those that it has confirmed.
    """

    stage: str
    head: Head
    secrets: dict[str, bytes] = field(default_factory=dict, repr=False)
    terms: Terms | None = None
    shares: dict[int, bytes] = field(default_factory=dict, repr=False)
    survivors: tuple[int, ...] = ()

    def forget(self) -> None:
        """Drop all secrets. Python frees their memory, but does not overwrite it."""
        self.stage = ENDED
        self.secrets.clear()
        self.shares.clear()

    def to_bytes(self) -> bytes:
        table = {
            "version": _VERSION,
            "stage": self.stage,
            "head": self.head.to_fields(),
            "terms": self.terms.to_fields() if self.terms else None,
            "secrets": self.secrets,
            "shares": {str(place): one for place, one in self.shares.items()},
            "survivors": self.survivors,
        }
        return json.dumps(table, default=lambda one: {_BYTES: one.hex()}).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """The inverse of `to_bytes`; ConfigError for bytes that this version has not written."""
        try:
            table = json.loads(content, object_hook=_bytes_again)
            if table["version"] != _VERSION:
                raise ConfigError(f"A member's state of version {table['version']}: expected {_VERSION}.")
            return cls(
                table["stage"],
                Head.from_fields(table["head"]),
                table["secrets"],
                Terms.from_fields(table["terms"]) if table["terms"] else None,
                {int(place): one for place, one in table["shares"].items()},
                tuple(table["survivors"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(f"No readable state of a member ({type(error).__name__}).") from None


def _bytes_again(found: dict[str, Any]) -> Any:
    return bytes.fromhex(found[_BYTES]) if found.keys() == {_BYTES} else found
