"""What strangers wrote cannot move the cursor, hide, turn around or run over; whatever they wrote."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from fl_dp.clean_text import LONGEST, clean, clean_json, one_line

NASTY = "a\x1b[2Jb\x07c\nd\u202ee\x9bf\u2066g\ud800h\u3164i\U000e0041j"
ANY_TEXT = st.text(st.characters(), max_size=400) | st.text(
    st.sampled_from("a \n\x1b\x9b\u202e\u2028\u0301\ufe0f\ud800\u00a0…"), max_size=400
)


@given(ANY_TEXT, st.integers(1, 350))
def test_every_danger_is_gone_and_a_second_cleaning_changes_nothing(text: str, longest: int) -> None:
    for cleaned in (clean, one_line):
        shown = cleaned(text, longest)
        assert shown.isprintable()
        assert len(shown) <= longest
        assert cleaned(shown, longest) == shown
        marks = [unicodedata.category(one) in ("Mn", "Me") for one in shown]
        assert not any(all(marks[start : start + 4]) for start in range(len(marks) - 3))


@given(ANY_TEXT)
def test_a_line_has_single_blanks_between_its_words(text: str) -> None:
    assert "  " not in one_line(text)


@given(st.text(st.characters(categories=("L", "Nd", "P", "Sm")), max_size=LONGEST))
def test_letters_digits_and_signs_stay(text: str) -> None:
    plain = "".join(one for one in text if one not in "\u115f\u1160\u3164\uffa0")
    assert clean(plain) == plain == one_line(plain)


def test_words_of_any_script_stay() -> None:
    for text in (
        "Universitätsklinikum Köln",
        "مستشفى",
        "病院",
        "e\u0301",
        "<b>&amp;</b>",
        r"$\frac$",
        "à  b",
    ):
        assert clean(text) == text


def test_what_is_hidden_is_shown_by_its_number() -> None:
    assert clean(NASTY) == (r"a\u001b[2Jb\u0007c d\u202ee\u009bf\u2066g\ud800h\u3164i\U000e0041j")
    assert clean("a\u2028b\x85c\u00a0d\te") == "a b c d e"


def test_long_texts_and_piles_of_accents_are_cut() -> None:
    assert clean("x" * LONGEST) == "x" * LONGEST
    assert clean("x" * 10_000) == "x" * (LONGEST - 1) + "…"
    assert len(clean("\x1b" * LONGEST)) == LONGEST  # numbers are longer than what they stand for
    assert len(clean("e" + "\u0301" * 50)) == 4
    assert len(clean("e" + "\ufe0f" * 50)) == 4  # in these, text can be hidden
    assert len(clean("e" + "\u20dd" * 50)) == 4


def test_several_lines_become_one_with_single_blanks() -> None:
    assert one_line("two\n    lines\r\n\x1b[31mred ") == r"two lines \u001b[31mred"


def test_names_and_texts_at_any_depth_of_json() -> None:
    found = clean_json({NASTY: [NASTY, 1, None, {"x": (NASTY, True)}]})
    assert found == {clean(NASTY): [clean(NASTY), 1, None, {"x": [clean(NASTY), True]}]}


def test_two_clients_stay_two() -> None:
    assert len(clean_json({"a  b": 1, "a b": 2})) == 2
