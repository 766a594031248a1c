"""What other machines wrote cannot move the cursor."""

from fl_dp.reporting.printable import printable, printable_json

NASTY = "a\x1b[2Jb\x07c\nd\u202ee\x9bf"


def test_controls_escapes_and_turns_of_direction_become_spaces() -> None:
    assert printable(NASTY) == "a [2Jb c d e f"
    assert printable("Zürich, 東京 ok") == "Zürich, 東京 ok"


def test_names_and_texts_at_any_depth_of_json() -> None:
    found = printable_json({NASTY: [NASTY, 1, None, {"x": (NASTY, True)}]})
    assert found == {printable(NASTY): [printable(NASTY), 1, None, {"x": [printable(NASTY), True]}]}
