from pathlib import Path

import pytest
from launch.sweep.fakes import leave

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.ledger.files import ledger_file
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.ledger.requests import ReservationRequest
from fl_dp.config.run import RunConfig
from fl_dp.launch.sweep.plan import PlannedRun, SweepFolder, SweepPlan
from fl_dp.launch.sweep.results import rows_of, total_epsilon
from fl_dp.records import Entry

CONFIG = {"accountant": "pld", "rounds": 2}
CHARGE = {"sample_rate": 0.1, "noise_multiplier": 4.0, "steps": 20}


@pytest.fixture
def folder(tmp_path: Path) -> SweepFolder:
    return SweepFolder(tmp_path)


@pytest.fixture
def plan() -> SweepPlan:
    runs = [PlannedRun(name, name, 0, {}, CONFIG) for name in ("a", "b")]
    return SweepPlan(tuple(runs), True, "", False, 1.0, 1e-5)


def client(**more: object) -> dict[str, object]:
    return {
        "status": "trained", "epsilon": 0.5, "accountant": "pld", "delta": 1e-5, "charges": [CHARGE], **more
    }  # fmt: skip


@pytest.mark.parametrize(
    ("before", "alone"),
    [
        ({**CHARGE, "steps": 15}, compute_epsilon([Entry(0.1, 4.0, 5)], 1e-5)),
        ({**CHARGE, "noise_multiplier": 5.0}, None),  # of an account that was retired meanwhile
    ],
)
def test_what_was_spent_before_is_not_the_runs_own(plan, folder, before, alone):
    leave(folder, "a", "completed", clients={"0": client(before=[before])})
    (row, _) = rows_of(plan, folder)
    assert (row.status, row.epsilon, row.alone) == ("completed", 0.5, alone)


def test_all_runs_together_are_composed(plan, folder):
    assert total_epsilon(plan, folder) == 0.0
    leave(folder, "a", "completed")
    leave(folder, "b", None)
    assert total_epsilon(plan, folder) == compute_epsilon([Entry(0.1, 4.0, 40)], 1e-5)


def test_a_run_without_privacy_is_left_out_of_the_sum(plan, folder):
    leave(folder, "a", "completed")
    unpaid = client(epsilon=None, charges=[{**CHARGE, "noise_multiplier": 0.0}])
    leave(folder, "b", "completed", private=False, epsilon=None, clients={"0": unpaid})
    assert total_epsilon(plan, folder) == compute_epsilon([Entry(0.1, 4.0, 20)], 1e-5)
    assert [row.alone for row in rows_of(plan, folder)][1] == float("inf")


def test_a_damaged_summary_ends_nothing(plan, folder):
    leave(folder, "a", "completed")
    folder.run("a").summary.write_text("{")
    (row, _) = rows_of(plan, folder)
    assert row.status == "unfinished"
    assert "is damaged" in row.reason


def test_on_one_ledger_its_accounts_say_what_is_spent(folder, tmp_path):
    config = RunConfig(data="npz:/data/x.npz", rounds=2).to_flat()
    runs = (PlannedRun("a", "a", 0, {}, config),)
    plan = SweepPlan(runs, False, str(tmp_path / "ledger"), False, 1.0, 1e-5)
    assert total_epsilon(plan, folder) == 0.0
    (tmp_path / "ledger").mkdir()
    with Ledger.open(ledger_file(tmp_path / "ledger")) as ledger:
        for client, steps in ((0, 5), (1, 9)):
            dataset = f"npz:/data/x.npz, part {client}/2 (iid, seed 0)"
            ledger.register(dataset, f"{client}" * 64, 700, source="x", cut="2 parts (iid, seed 0)")
            ledger.reserve_all(
                [ReservationRequest(dataset, "r", 1, Entry(0.1, 4.0, steps), Budget(8.0, 1e-5))]
            )
        ledger.register("another", "a" * 64, 700)
        ledger.reserve_all([ReservationRequest("another", "r", 1, Entry(0.1, 4.0, 50), Budget(8.0, 1e-5))])
    assert total_epsilon(plan, folder) == compute_epsilon([Entry(0.1, 4.0, 9)], 1e-5)
