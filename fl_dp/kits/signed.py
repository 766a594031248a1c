"""What a site has stated, judged: whether its signature holds, and whether it speaks of this run's model.

The page and `fl-dp verify` both ask here, so that one never calls good what the other calls wrong.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from fl_dp.kits.keys import is_public_key, is_signed
from fl_dp.statements import PURPOSE, Stated, Statement


class Signature(StrEnum):
    """Of a statement. HOLDS: by the key beside it; whose key that is, only a roster says."""

    NONE = "none"
    HOLDS = "holds"
    WRONG = "wrong"


def signature_of(one: Stated) -> Signature:
    """NONE where neither key nor signature is there; one without the other is WRONG."""
    if not one.key and not one.signature:
        return Signature.NONE
    try:
        signature, text = bytes.fromhex(one.signature), one.text.encode()
    except ValueError:  # half a character, which JSON can hold, is in no text that was ever signed
        return Signature.WRONG
    # A key has one spelling, that of rosters: another would be taken for another site's.
    holds = is_public_key(one.key) and is_signed(one.key, PURPOSE, text, signature)
    return Signature.HOLDS if holds else Signature.WRONG


def speaks_of_another(said: Statement, summary: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Of "run" and "model" those that summary.json does not name as the statement does.

    One that is missing there was taken out. summary None: there is none yet, and nothing to compare with.
    """
    if summary is None:
        return ()
    digests = summary.get("digests")
    model = digests.get("model") if isinstance(digests, Mapping) else None
    found = (("run", said.run == summary.get("run")), ("model", said.weights == model))
    return tuple(name for name, same in found if not same)
