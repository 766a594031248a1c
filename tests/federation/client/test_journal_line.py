"""What an operator reads of a line of the journal."""

from dataclasses import replace

import pytest

from fl_dp.federation.client.journal import Line, in_words

LINE = Line(
    event="trained",
    at="2026-01-31T12:00:00",
    client="north",
    run="r",
    round=3,
    steps=12,
    before=0.404,
    after=0.5101,
    budget=2.0,
    seconds=0.81,
    process=7,
)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "round 3 of run r: 12 steps, epsilon 0.41 -> 0.52 of 2.00, 0.8 s"),
        ({"steps": 1, "before": 0.0}, "round 3 of run r: 1 step, epsilon 0.00 -> 0.52 of 2.00, 0.8 s"),
        ({"event": "asked", "steps": 1}, "round 3 of run r: asked for 1 step"),
        ({"event": "asked"}, "round 3 of run r: asked for 12 steps"),
        ({"after": None}, "round 3 of run r: 12 steps, NOT PRIVATE (no epsilon holds), 0.8 s"),
        ({"event": "declined", "after": 0.404, "reason": "no"}, "round 3 of run r: declined: no"),
        ({"event": "failed", "after": None, "reason": "no"}, "round 3 of run r: failed: no"),
        ({"event": "failed", "reason": "no"}, "round 3 of run r: failed, epsilon 0.41 -> 0.52 of 2.00: no"),
        (
            {"event": "registered", "run": "", "after": 0.404},
            "a server asked who this client is; epsilon 0.41 of 2.00 is spent",
        ),
        (
            {"event": "failed", "run": "", "after": None, "reason": "no"},
            "a server asked who this client is: failed: no",
        ),
    ],
)
def test_a_line_in_words(changes: dict[str, object], words: str) -> None:
    assert in_words(replace(LINE, **changes)) == words  # type: ignore[arg-type]
