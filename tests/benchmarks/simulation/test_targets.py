import pytest
from made_up_runs import outcome, seen

from benchmarks.simulation.contenders import FLOWER, OURS, Load
from benchmarks.simulation.targets import SMALL, TARGETS, driver_gib, ms_a_client, table_of_targets

LOAD = Load(500, SMALL)


def test_what_a_client_costs_is_its_share_of_a_round():
    assert ms_a_client(outcome(OURS, LOAD, seen(5.0))) == pytest.approx(10)


def test_the_drivers_peak_is_the_largest_of_all_runs():
    assert driver_gib(outcome(OURS, LOAD, seen(1, peak=2**30), seen(1, peak=2**31))) == 2
    assert driver_gib(outcome(OURS, LOAD, seen(1, peak=None))) is None


@pytest.mark.parametrize(("value", "verdict"), [(0.5, "goal"), (2, "reached"), (2.1, "missed"), (None, "")])
def test_verdict_on_what_is_to_be_small(value, verdict):
    assert TARGETS[0].verdict(value) == verdict


@pytest.mark.parametrize(("value", "verdict"), [(130, "goal"), (129, "reached"), (79, "missed")])
def test_verdict_on_what_is_to_be_large(value, verdict):
    assert TARGETS[3].verdict(value) == verdict


def test_ours_and_the_yardstick_stand_side_by_side():
    lines = table_of_targets([outcome(OURS, LOAD, seen(0.5)), outcome(FLOWER, LOAD, seen(6.0))])
    line = next(line for line in lines.splitlines() if "0.1 MB" in line)
    assert [cell.strip() for cell in line.strip("|").split("|")][1:] == [
        "Flower 12",
        "<= 2",
        "<= 0.5",
        "1",
        "reached",
    ]
