"""HTTP requests signed by a site's key. A signature covers method, path, body and time, and is valid once.

Flower's own signature covers only a time: anyone who has one can use it for other requests for 305 s.
"""

import hashlib
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from threading import Lock

from fl_dp.kits.keys import SigningKey, is_public_key, is_signed

PURPOSE = "request"
WINDOW = 300.0  # seconds by which a site's clock may be off
PROTOCOL = "2"  # increased when sites of other versions could no longer be understood
_MOST_SEEN = 250_000  # nonces of one site, one for each request within two windows
_NONCE = re.compile("[0-9a-f]{32}")

KEY, TIME, NONCE = "fl-dp-key", "fl-dp-time", "fl-dp-nonce"
DIGEST, SIGNATURE, SPOKEN = "fl-dp-digest", "fl-dp-signature", "fl-dp-protocol"


class RequestRefusedError(Exception):
    """A request is refused. reason: in words for its sender. status: HTTP status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


@dataclass(frozen=True, slots=True)
class RequestHead:
    """What the signature covers, in this order. digest: SHA-256 of the body, in hexadecimal digits."""

    federation: str
    method: str
    path: str
    time: str
    nonce: str
    digest: str
    spoken: str

    def to_bytes(self) -> bytes:
        return "\n".join(astuple(self)).encode()


def digest_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


class SteadyClock:
    """Seconds since 1970: read from the wall clock once, then counted by the monotonic clock."""

    def __init__(
        self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._steady, self._began = steady, wall() - steady()

    def __call__(self) -> float:
        return self._began + self._steady()


def sign_request(
    key: SigningKey,
    federation: str,
    method: str,
    path: str,
    body: bytes,
    clock: Callable[[], float] = time.time,
) -> dict[str, str]:
    """The headers of a request. clock: the seconds since 1970."""
    head = RequestHead(
        federation, method, path, f"{clock():.3f}", secrets.token_hex(16), digest_of(body), PROTOCOL
    )
    return {
        KEY: key.public,
        TIME: head.time,
        NONCE: head.nonce,
        DIGEST: head.digest,
        SIGNATURE: key.sign(PURPOSE, head.to_bytes()).hex(),
        SPOKEN: head.spoken,
    }


class RequestCheck:
    """Accepts each signed request once. wall, steady: clocks; `wall` gives the seconds since 1970.

    A request's time must agree with the wall clock, or with a `SteadyClock` from the start of the run: the
    wall clock may be set right, or wrong, during a run.
    """

    def __init__(
        self,
        federation: str,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._federation, self._steady = federation, steady
        self._clocks = wall, SteadyClock(wall, steady)
        self._seen: dict[str, OrderedDict[str, float]] = {}  # by key: nonces, and when they came
        self._lock = Lock()

    def signer(self, method: str, path: str, headers: Mapping[str, str]) -> str:
        """The public key that signed the request; RequestRefusedError if the signature is invalid or too old.

        The body has not been read yet; the caller must check that it has the digest in `headers`.
        """
        key = headers.get(KEY, "")
        known = (headers.get(name, "") for name in (TIME, NONCE, DIGEST, SPOKEN))
        head = RequestHead(self._federation, method, path, *known)
        try:
            signature, sent = bytes.fromhex(headers.get(SIGNATURE, "")), float(head.time)
        except ValueError:
            raise RequestRefusedError(401, "not signed") from None
        well_formed = is_public_key(key) and _NONCE.fullmatch(head.nonce)
        if not well_formed or not is_signed(key, PURPOSE, head.to_bytes(), signature):
            raise RequestRefusedError(401, "not signed")
        off = min((sent - clock() for clock in self._clocks), key=abs)
        if not abs(off) <= WINDOW:
            raise RequestRefusedError(
                401,
                f"your clock is {abs(off):.0f} s {'ahead of' if off > 0 else 'behind'} the server's; set it",
            )
        return key

    def take(self, key: str, nonce: str) -> None:
        """Mark the site's nonce as used; RequestRefusedError if it was used before."""
        now = self._steady()
        with self._lock:
            seen = self._seen.setdefault(key, OrderedDict())
            while seen and next(iter(seen.values())) < now - 2 * WINDOW - 1:
                seen.popitem(last=False)
            if nonce in seen:
                raise RequestRefusedError(401, "this request was answered before")
            if len(seen) >= _MOST_SEEN:
                raise RequestRefusedError(429, "too many requests")
            seen[nonce] = now
