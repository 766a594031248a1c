import pytest

from fl_dp.reporting.wording import counted, duration, rough_duration


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 rounds"), (1, "1 round"), (2, "2 rounds"), (1442, "1,442 rounds")]
)
def test_counts(count: int, words: str) -> None:
    assert counted(count, "round") == words
    assert counted(count, "entry", "entries") == words.replace("rounds", "entries").replace("round", "entry")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.4, "59 s"), (59.6, "1 min 0 s"),
        (60, "1 min 0 s"), (200, "3 min 20 s"),
        (3600 * 5 + 600, "5 h 10 min"), (86400 * 2 + 3 * 3600, "2 d 3 h"),
    ],
)  # fmt: skip
def test_measured_times(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-1, "0 s"), (0.4, "0 s"), (89, "89 s"), (90, "2 min"), (3600, "60 min"), (12000, "3 h 20 min")],
)
def test_guessed_times(seconds: float, words: str) -> None:
    assert rough_duration(seconds) == words
