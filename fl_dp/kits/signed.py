"""Checks a site's statement: whether its signature is valid, and whether it is about this run's model.

The page and `fl-dp verify` both use this, so they always agree.
"""

from enum import StrEnum

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
    except ValueError:  # JSON can hold a lone surrogate; no text that was ever signed does
        return Signature.WRONG
    # A key has one canonical form, as in rosters. In another form it would pass for another site's key.
    holds = is_public_key(one.key) and is_signed(one.key, PURPOSE, text, signature)
    return Signature.HOLDS if holds else Signature.WRONG


def speaks_of_another(said: Statement, run: str, model: str | None) -> tuple[str, ...]:
    """Those of "run" and "model" in which the statement differs from the run's name and its model's digest.

    If summary.json lacks one of them, somebody removed it; so it differs.
    """
    found = (("run", said.run == run), ("model", said.weights == model))
    return tuple(name for name, same in found if not same)
