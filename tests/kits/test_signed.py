"""One judgment of a statement, for the page and for verify."""

from dataclasses import replace

import pytest

from fl_dp.kits.keys import SigningKey
from fl_dp.kits.signed import Signature, signature_of, speaks_of_another
from fl_dp.statements import PURPOSE, Stated, Statement

SAID = Statement("7", "ab" * 32, "cd" * 32, 0, "2026-01-01", "0.1.0", ())
KEY = SigningKey.generate()
TEXT = SAID.to_text()
SIGNED = Stated(TEXT, KEY.public, KEY.sign(PURPOSE, TEXT.encode()).hex())


def test_a_signature_holds_only_for_its_text_key_and_purpose() -> None:
    assert signature_of(SIGNED) is Signature.HOLDS
    assert signature_of(Stated(TEXT)) is Signature.NONE


@pytest.mark.parametrize(
    "changes",
    [
        {"key": ""},
        {"signature": ""},
        {"signature": "zz"},
        {"text": TEXT + " "},
        {"text": "\ud800"},  # half a character, as JSON can hold it
        {"key": SigningKey.generate().public},
        {"key": SIGNED.key.upper()},  # the same 32 bytes, and no key that any roster has
        {"signature": KEY.sign("roster", TEXT.encode()).hex()},
    ],
)
def test_any_other_is_wrong(changes: dict[str, str]) -> None:
    assert signature_of(replace(SIGNED, **changes)) is Signature.WRONG


@pytest.mark.parametrize(
    ("run", "model", "others"),
    [
        ("7", "ab" * 32, ()),
        ("8", "ab" * 32, ("run",)),
        ("7", "00" * 32, ("model",)),
        ("7", None, ("model",)),
        ("", None, ("run", "model")),
    ],
)
def test_files_that_the_summary_does_not_name_were_removed(
    run: str, model: str | None, others: tuple[str, ...]
) -> None:
    assert speaks_of_another(SAID, run, model) == others
