"""The NVFlare job that pays from the ledger: what it sends, what it costs, and where it ends."""

import importlib.util
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from launch.commands import fl_dp, steps_paid
from other_federations import (
    EXAMPLES,
    FirstStep,
    assert_epsilon,
    assert_killed_steps_are_paid,
    changed_lines,
)

from fl_dp.errors import BudgetExhaustedError

HERE = EXAMPLES / "nvflare"
PLAIN, PRIVATE = (HERE / f"{kind}_client.py" for kind in ("plain", "private"))
STEPS = 16  # of a round: 1,000 records, 64 expected in each
IS_THERE = importlib.util.find_spec("nvflare") is not None
needs_nvflare = pytest.mark.skipif(
    not IS_THERE, reason="NVFlare is not installed: pip install nvflare==2.9.0"
)


class Flare(SimpleNamespace):
    """What NVFlare's client API hands to a script, for some rounds; `sent` is what leaves."""

    def __init__(self, weights: dict[str, torch.Tensor], rounds: int, site: str = "site-1") -> None:
        super().__init__(weights=weights, rounds=rounds, site=site, sent=[], FLModel=SimpleNamespace)

    def init(self) -> None:
        pass

    def get_site_name(self) -> str:
        return self.site

    def get_job_id(self) -> str:
        return "job-7"

    def is_running(self) -> bool:
        return len(self.sent) < self.rounds

    def receive(self) -> SimpleNamespace:
        return SimpleNamespace(params=self.weights)

    def send(self, model: SimpleNamespace) -> None:
        params = {name: one.clone() for name, one in model.params.items()}
        self.sent.append(SimpleNamespace(**{**vars(model), "params": params}))


@pytest.fixture
def records(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    import records

    return records


def played(monkeypatch, records, rounds: int, script: Path = PRIVATE, site: str = "site-1") -> Flare:
    """The client's script in a job that sends the same weights in each round."""
    torch.manual_seed(3)
    flare = Flare(records.TabularMLP().state_dict(), rounds, site)
    package = SimpleNamespace(client=flare)
    monkeypatch.setitem(sys.modules, "nvflare", package)
    monkeypatch.setitem(sys.modules, "nvflare.client", flare)
    runpy.run_path(str(script), run_name="__main__")
    return flare


def test_ten_lines_are_changed():
    assert 0 < changed_lines(PLAIN, PRIVATE) <= 10


def test_a_result_is_noisy_weights_and_public_numbers(monkeypatch, records, tmp_path):
    flare = played(monkeypatch, records, 2)
    names = sorted(records.TabularMLP().state_dict())
    for number, sent in enumerate(flare.sent, 1):
        assert sorted(vars(sent)) == ["meta", "metrics", "params"]
        assert sorted(sent.params) == names
        assert sorted(sent.metrics) == ["accuracy", "epsilon", "loss"]
        assert sent.meta == {"NUM_STEPS_CURRENT_ROUND": STEPS}
        epsilon = sent.metrics["epsilon"]
        assert_epsilon(epsilon, rate=64 / 1000, noise=2.0, steps=number * STEPS, delta=1e-5)
    one, other = (sent.params for sent in flare.sent)
    assert all((one[name] != other[name]).any() for name in names)
    there = played(monkeypatch, records, 1, site="site-2").sent[0].metrics
    assert there == flare.sent[0].metrics  # measured on public rows, of the same weights
    assert steps_paid(tmp_path / "state" / "fl-dp" / "ledger") == {
        "records of site-1": 2 * STEPS,
        "records of site-2": STEPS,
    }


def test_the_plain_one_sends_raw_numbers(monkeypatch, records):
    one, other = (played(monkeypatch, records, 1, PLAIN, site).sent[0] for site in ("site-1", "site-2"))
    assert one.metrics.keys() == other.metrics.keys() == {"accuracy", "loss", "train_loss"}
    assert one.metrics["loss"] != other.metrics["loss"]


def test_the_first_step_is_one_backward_per_example(monkeypatch, records):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        step = FirstStep(monkeypatch)
        monkeypatch.setattr(torch.nn, "Dropout", lambda chance: torch.nn.Identity())
        played(monkeypatch, records, 1)
        torch.manual_seed(3)
        step.assert_is_one_backward_per_example(records.TabularMLP(), 1.0)
    finally:
        torch.set_default_dtype(before)


def test_a_second_job_ends_at_the_budget_that_both_have(monkeypatch, records, tmp_path):
    first = played(monkeypatch, records, 20)
    flare = Flare(first.weights, 20)
    monkeypatch.setitem(sys.modules, "nvflare.client", flare)
    monkeypatch.setitem(sys.modules, "nvflare", SimpleNamespace(client=flare))
    with pytest.raises(BudgetExhaustedError, match="Not one more step fits"):
        runpy.run_path(str(PRIVATE), run_name="__main__")
    assert 0 < len(flare.sent) < 20
    assert 2.95 < flare.sent[-1].metrics["epsilon"] <= 3.0
    paid = steps_paid(tmp_path / "state" / "fl-dp" / "ledger")
    with pytest.raises(BudgetExhaustedError):
        played(monkeypatch, records, 1)
    assert steps_paid(tmp_path / "state" / "fl-dp" / "ledger") == paid


KILLED = """
import sys
import pytest, torch
from test_nvflare import played
import records
take = torch.optim.Adam.step
def step(self, *args):
    with open(sys.argv[1], "ab", buffering=0) as file:
        file.write(b".")
    return take(self, *args)
torch.optim.Adam.step = step
with pytest.MonkeyPatch.context() as patch:
    played(patch, records, 1000)
"""


@pytest.mark.slow
def test_a_client_that_is_killed_has_paid(tmp_path):
    path = os.pathsep.join([str(HERE), str(Path(__file__).parent), *sys.path])
    env = os.environ | {"XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONPATH": path}
    steps = tmp_path / "steps"
    assert_killed_steps_are_paid([sys.executable, "-c", KILLED, str(steps)], env, steps, STEPS)


def job(folder: Path, script: str, rounds: int, name: str) -> tuple[int, str, list[dict]]:
    """Exit code, output and the server's own record of each round."""
    done = subprocess.run(
        [sys.executable, "job.py", script, str(rounds), str(folder / name)],
        cwd=HERE,
        env=os.environ
        | {
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(EXAMPLES.parents[1]),
            "XDG_STATE_HOME": str(folder / "state"),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    rounds_told = folder / name / "tabular/server/simulate_job/metrics/round_metrics.jsonl"
    told = [json.loads(line) for line in rounds_told.read_text().splitlines()] if rounds_told.exists() else []
    return done.returncode, done.stdout + done.stderr, told


@needs_nvflare
@pytest.mark.slow
def test_a_second_job_in_the_simulator_ends_at_the_budget(tmp_path):
    code, said, told = job(tmp_path, "private_client.py", 2, "first")
    assert code == 0, said
    for line in told:
        for site in line["sites"]:
            assert {one["name"] for one in site["metrics"]} == {"accuracy", "loss", "epsilon"}
    code, said, told = job(tmp_path, "private_client.py", 40, "second")
    assert code == 1
    assert "BudgetExhaustedError: Not one more step fits" in said
    told_of = [{one["name"]: one["value"] for one in line["aggregated_metrics"]} for line in told]
    assert 2.95 < told_of[-1]["epsilon"] <= 3.0
    assert told_of[-1]["accuracy"] > 0.8
    server = "".join(path.read_text() for path in (tmp_path / "second/tabular/server").glob("*log*"))
    assert "TASK_ABORTED" in server or "EXECUTION_EXCEPTION" in server
    assert "Not one more step fits" not in server  # the reason stays in the site's log
    shown = fl_dp("ledger", "show", "--rounds", str(tmp_path / "state/fl-dp/ledger/ledger.sqlite")).stdout
    assert "simulate_job" in shown
    assert "records of site-2" in shown
