import pytest
from rich.cells import cell_len

from fl_dp.reporting.wording import by_reason, counted, duration, in_lines, packed, rough_duration


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 rounds"), (1, "1 round"), (2, "2 rounds"), (1442, "1,442 rounds")]
)
def test_counts(count: int, words: str) -> None:
    assert counted(count, "round") == words
    assert counted(count, "entry", "entries") == words.replace("rounds", "entries").replace("round", "entry")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (60, "1 min 0 s"),
        (200, "3 min 20 s"),
        (3600 * 5 + 600, "5 h 10 min"),
        (86400 * 2 + 3 * 3600, "2 d 3 h"),
    ],
)
def test_measured_times(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-1, "0 s"), (0.4, "0 s"), (89, "89 s"), (90, "2 min"), (3600, "60 min"), (12000, "3 h 20 min")],
)
def test_guessed_times(seconds: float, words: str) -> None:
    assert rough_duration(seconds) == words


@pytest.mark.parametrize("width", [20, 40, 80])
def test_no_line_is_wider_than_the_console_and_all_but_the_first_are_indented(width: int) -> None:
    """Parts of each length up to more than a line, of one word and of many."""
    for length in range(1, 2 * width + 3):
        for whole in ("x" * length, ("xy " * length)[:length].strip(), "\u75c5" * length):
            for parts in ((whole,), ("first", whole), (whole, "last"), ("x" * (width - 2), whole, whole)):
                lines = packed(parts, width)
                assert max(map(cell_len, lines)) <= width
                assert not lines[0].startswith(" ")
                assert all(line.startswith("  ") for line in lines[1:])
                assert "".join("".join(lines).split()) == "".join("".join(parts).split())


def test_a_part_stands_beside_the_last_as_long_as_the_line_is_not_full() -> None:
    assert packed(("a" * 10, "b" * 8), 20) == [f"{'a' * 10}  {'b' * 8}"]
    assert packed(("a" * 10, "b" * 9), 20) == ["a" * 10, f"  {'b' * 9}"]


def test_a_place_is_not_cut() -> None:
    place = "/long/" * 20
    assert in_lines(f"ledger in {place}: what") == f"ledger in\n{place}:\nwhat"


def test_who_has_a_reason_stands_before_it():
    known = [("north", "no budget"), ("east", ""), ("south", "no data"), ("west", "no budget")]
    assert by_reason(known) == "north, west: no budget; south: no data"
    assert by_reason((str(number), "late") for number in range(1007)) == "0, 1, 2, 3, 4 and 1,002 more: late"
