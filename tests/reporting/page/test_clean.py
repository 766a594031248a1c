import unicodedata

import pytest

from fl_dp.reporting.page.clean import LONGEST, clean


@pytest.mark.parametrize(
    "number", [0, 7, 0x1B, 0x85, 0xAD, 0x200B, 0x200E, 0x202E, 0x2066, 0xFEFF, 0xD800, 0xE000]
)
def test_hidden_characters_become_numbers_or_spaces(number: int) -> None:
    shown = clean(f"a{chr(number)}b")
    assert shown in (f"a\\u{number:04x}b", "a b")
    assert not any(unicodedata.category(one) in ("Cc", "Cf", "Cs") for one in shown)


def test_words_of_any_script_stay() -> None:
    for text in ("Universitätsklinikum Köln", "مستشفى", "病院", "e\u0301", "<b>&amp;</b>", r"$\frac$"):
        assert clean(text) == text


def test_long_texts_are_cut_and_piles_of_accents_are_low() -> None:
    assert len(clean("x" * 10_000)) == LONGEST
    assert clean("x" * 10_000).endswith("…")
    assert clean("x" * LONGEST) == "x" * LONGEST
    assert len(clean("e" + "\u0301" * 50)) == 4
