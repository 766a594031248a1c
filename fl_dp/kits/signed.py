"""Checks a site's statement: whether its signature is valid, and whether it is about this run's model.

The page and `fl-dp verify` both use this, so that they never disagree.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from fl_dp.kits.keys import is_public_key, is_signed
from fl_dp.statements import PURPOSE, Stated, Statement


class Signature(StrEnum):
    """A statement's signature. HOLDS: valid for the key beside it; only a roster says whose key that is."""

    NONE = "none"
    HOLDS = "holds"
    WRONG = "wrong"


def signature_of(one: Stated) -> Signature:
    """NONE if both key and signature are missing; WRONG if one of them is."""
    if not one.key and not one.signature:
        return Signature.NONE
    try:
        signature, text = bytes.fromhex(one.signature), one.text.encode()
    except ValueError:  # a lone surrogate, which JSON can hold, is in no text that was ever signed
        return Signature.WRONG
    # A key has one canonical form, as in rosters: another form would be taken for another site's key.
    holds = is_public_key(one.key) and is_signed(one.key, PURPOSE, text, signature)
    return Signature.HOLDS if holds else Signature.WRONG


def speaks_of_another(said: Statement, summary: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Those of "run" and "model" in which the statement differs from summary.json.

    One that is missing there was removed, so it differs. summary None: there is nothing to compare with yet.
    """
    if summary is None:
        return ()
    digests = summary.get("digests")
    model = digests.get("model") if isinstance(digests, Mapping) else None
    found = (("run", said.run == summary.get("run")), ("model", said.weights == model))
    return tuple(name for name, same in found if not same)
