"""The settings are drawn by their seed, are those of the file, and the text is JSON with a line for each."""

import json

from scripts.accountant_reference import FILE, _answer, draw


def test_the_settings_are_those_of_the_file():
    kept = json.loads(FILE.read_text())
    drawn = draw(200, kept["seed"])
    assert drawn == [{name: row[name] for name in drawn[0]} for row in kept["settings"]]
    assert draw(20, 1) != draw(20, 2)


def test_a_reference_without_an_answer_says_why():
    assert _answer(lambda: 1.5) == 1.5
    assert _answer(lambda: float("nan")) == "no answer: nan"
    assert _answer(lambda: 1 / 0) == "no answer: ZeroDivisionError division by zero"
