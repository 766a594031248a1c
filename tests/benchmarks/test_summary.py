import pytest

from benchmarks.measure import Cost
from benchmarks.processes import Ended
from benchmarks.summary import Measurement, row_of, table_of_means, table_of_rows
from benchmarks.turns import Turn

MIB = 2**20


def measurement(*turns, first_mib=20, mib=20, first_seconds=1.0):
    """turns: seconds of the engine and of plain SGD, which takes 20 MiB."""
    pairs = tuple(Turn(Cost(step, mib * MIB), Cost(sgd, 20 * MIB)) for step, sgd in turns)
    return Measurement(Cost(first_seconds, first_mib * MIB), Cost(1.0, 20 * MIB), pairs)


def row(model, engine, ratio):
    return row_of(model, engine, 64, [measurement((ratio, 1.0))], None)


def test_ratios_are_medians_over_turns_then_over_processes():
    seen = [
        measurement((2.0, 1.0), (3.0, 1.0), (90.0, 1.0)),  # 3
        measurement((4.0, 2.0)),  # 2
        measurement((10.0, 2.0)),  # 5
    ]
    numbers = row_of("m", "e", 64, seen, None).numbers
    assert numbers.step_ratio == 3.0
    assert numbers.step_ratio_range == (2.0, 5.0)
    assert numbers.step_seconds == 4.0
    assert (numbers.processes, numbers.turns) == (3, 5)


@pytest.mark.parametrize("first", [0.5, 5.0])
def test_the_peak_is_that_of_all_steps_and_the_first_is_told_apart(first):
    one = measurement((0.5, 1.0), first_mib=60, mib=30, first_seconds=first)
    numbers = row_of("m", "e", 64, [one], None).numbers
    assert numbers.peak_bytes == 60 * MIB
    assert (numbers.peak_ratio, numbers.further_peak_ratio) == (3.0, 1.5)
    assert numbers.first_over_further == first / 0.5


def test_an_engine_that_ended_has_no_numbers_but_a_reason():
    seen = row_of("m", "e", 64, [measurement((1.0, 1.0))], Ended("killed", "too large"))
    assert (seen.numbers, seen.status, seen.reason) == (None, "killed", "too large")
    assert "killed" in table_of_rows([seen])
    assert table_of_means([seen]).count("\n") == 1  # headings and rule


def test_means_are_geometric_over_the_models_that_an_engine_can_run():
    rows = [row("a", "e", 1.0), row("b", "e", 4.0), row_of("c", "e", 64, [], Ended("refused", "no"))]
    cells = table_of_means(rows).splitlines()[-1].split("|")
    assert [cell.strip() for cell in cells[1:5]] == ["e", "2", "2.00", "4.00"]
