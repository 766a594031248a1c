import pytest
from made_up_runs import outcome, seen

from benchmarks.simulation.contenders import FLOWER, OURS, Load
from benchmarks.simulation.targets import SMALL, TARGETS, driver_gib, ms_a_client, table_of_targets

LOAD = Load(500, SMALL)


def test_figures_are_a_clients_share_of_a_round_and_the_largest_peak_of_all_runs():
    assert ms_a_client(outcome(OURS, LOAD, seen(5.0))) == pytest.approx(10)
    assert driver_gib(outcome(OURS, LOAD, seen(1, peak=2**30), seen(1, peak=2**31))) == 2
    assert driver_gib(outcome(OURS, LOAD, seen(1, peak=None))) is None


@pytest.mark.parametrize(
    ("target", "value", "verdict"),
    [
        *(
            (0, value, verdict)
            for value, verdict in ((0.5, "goal"), (2, "reached"), (2.1, "missed"), (None, ""))
        ),
        *((3, value, verdict) for value, verdict in ((130, "goal"), (129, "reached"), (79, "missed"))),
    ],
)
def test_verdicts(target, value, verdict):
    assert TARGETS[target].verdict(value) == verdict


def test_ours_and_the_yardstick_stand_side_by_side():
    lines = table_of_targets([outcome(OURS, LOAD, seen(0.5)), outcome(FLOWER, LOAD, seen(6.0))])
    line = next(line for line in lines.splitlines() if "0.1 MB" in line)
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[1:] == ["Flower 12", "<= 2", "<= 0.5", "1", "reached"]
