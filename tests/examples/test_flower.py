"""The Flower app that pays from the ledger: what it sends, what it costs, and where it ends."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from launch.commands import fl_dp, processes_with, steps_paid, wait_for
from other_federations import (
    EXAMPLES,
    FirstStep,
    assert_epsilon,
    assert_killed_steps_are_paid,
    changed_lines,
)

from fl_dp import Ledger
from fl_dp.records import Entry

HERE = EXAMPLES / "flower"
PLAIN, PRIVATE = (HERE / "digits_app" / f"{kind}_client.py" for kind in ("plain", "private"))
STEPS = 11  # of a round: 700 records, 64 expected in each


@pytest.fixture
def task(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    from digits_app import task

    return task


def asked(task, kind="train", *, site=0, run=7, scale=1.0) -> Message:
    """What the client answers to a message with new weights."""
    from digits_app.private_client import app

    torch.manual_seed(3)
    weights = {name: scale * one for name, one in task.Net().state_dict().items()}
    node, config = {"partition-id": site, "num-partitions": 2}, {"local-epochs": 1, "learning-rate": 0.5}
    context = Context(run_id=run, node_id=1, node_config=node, state=RecordDict(), run_config=config)
    message = Message(RecordDict({"arrays": ArrayRecord(weights)}), dst_node_id=1, message_type=kind)
    message.metadata.__dict__["_message_id"] = "asked"
    return app(message, context)


def fields(reply: Message) -> dict[str, list[str]]:
    assert not reply.has_error()
    return {name: sorted(record) for name, record in reply.content.items()}


def ledger_of(tmp_path) -> Path:
    return tmp_path / "state" / "fl-dp" / "ledger"


def test_ten_lines_are_changed():
    assert 0 < changed_lines(PLAIN, PRIVATE) <= 10


def test_a_reply_is_noisy_weights_and_public_numbers(task, tmp_path):
    first, second = asked(task), asked(task)
    names = sorted(task.Net().state_dict())
    assert fields(first) == {"arrays": names, "metrics": ["epsilon", "num-examples"]}
    assert first.content["metrics"]["num-examples"] == 700
    for number, reply in enumerate((first, second), 1):
        epsilon = reply.content["metrics"]["epsilon"]
        assert_epsilon(epsilon, rate=64 / 700, noise=2.0, steps=number * STEPS, delta=1e-5)
    one, other = (reply.content["arrays"].to_torch_state_dict() for reply in (first, second))
    assert all((one[name] != other[name]).any() for name in names)
    assert steps_paid(ledger_of(tmp_path)) == {"digits of site 0": 2 * STEPS}


def test_an_evaluation_reads_no_record_and_costs_nothing(task, tmp_path):
    here, there = asked(task, "evaluate"), asked(task, "evaluate", site=1)
    assert fields(here) == {"metrics": ["eval_acc", "eval_loss", "num-examples"]}
    assert dict(here.content["metrics"]) == dict(there.content["metrics"])
    assert not ledger_of(tmp_path).exists()


def test_the_first_step_is_one_backward_per_example(task, monkeypatch):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        step = FirstStep(monkeypatch)
        asked(task)
        torch.manual_seed(3)
        step.assert_is_one_backward_per_example(task.Net(), 1.0)
    finally:
        torch.set_default_dtype(before)


def test_weights_that_a_server_has_blown_up_make_no_answer_depend_on_records(task):
    assert fields(asked(task, scale=1e18)).keys() == {"arrays", "metrics"}
    assert asked(task, scale=1e38).has_error()  # of synthetic examples, whatever the records


def test_an_error_tells_what_is_public(task, monkeypatch, caplog):
    def broken(context):
        raise ValueError("row 7: Alice")

    monkeypatch.setattr(task, "train_data", broken)
    reply = asked(task)
    assert reply.error.reason == "failed; the site's log says why"
    assert "Alice" in caplog.text


def test_a_second_job_ends_at_the_budget_that_both_have(task, tmp_path):
    replies = [asked(task, run=1) for _ in range(2)]
    while not replies[-1].has_error():
        replies.append(asked(task, run=2))
    assert replies[-1].error.reason.startswith("Not one more step fits: epsilon ")
    assert 2.95 < replies[-2].content["metrics"]["epsilon"] <= 3.0
    paid = steps_paid(ledger_of(tmp_path))
    assert asked(task, run=3).has_error()
    assert steps_paid(ledger_of(tmp_path)) == paid


KILLED = """
import os, sys
import torch
from flwr.supercore.task_identity import TaskIdentity
from test_flower import asked
TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
from digits_app import task
take = torch.optim.SGD.step
def step(self, *args):
    with open(sys.argv[1], "ab", buffering=0) as file:
        file.write(b".")
    return take(self, *args)
torch.optim.SGD.step = step
while True:
    asked(task)
"""


@pytest.mark.slow
def test_a_client_that_is_killed_has_paid(tmp_path):
    path = os.pathsep.join([str(HERE), str(Path(__file__).parent), *sys.path])
    env = os.environ | {"XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONPATH": path}
    steps = tmp_path / "steps"
    assert_killed_steps_are_paid([sys.executable, "-c", KILLED, str(steps)], env, steps, STEPS)


class Flower:
    """Flower's commands on a copy of the app, as one user has them."""

    def __init__(self, folder: Path) -> None:
        self.home, self.app, self.state = folder / "flwr", folder / "app", folder / "state"
        shutil.copytree(HERE, self.app, ignore=shutil.ignore_patterns("__pycache__"))
        self._bin, self._started = Path(sys.executable).parent, list[subprocess.Popen[bytes]]()
        self.env = os.environ | {
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "FLWR_HOME": str(self.home),
            "FLWR_LOCAL_CONTROL_API_PORT": str(free_port()),  # another local SuperLink has another's ledger
            "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": str(free_port()),
            "FLWR_TELEMETRY_ENABLED": "0",
            "OMP_NUM_THREADS": "1",
            "PATH": f"{self._bin}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(EXAMPLES.parents[1]),
            "RAY_ADDRESS": "local",  # a cluster that another test has started ends with that test
            "XDG_STATE_HOME": str(self.state),
        }

    def run(self, *words: str) -> str:
        done = subprocess.run(
            [self._bin / "flwr", "run", ".", *words, "--stream"],
            cwd=self.app,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def start(self, *command: str, **env: str) -> None:
        started = subprocess.Popen(
            [self._bin / command[0], *command[1:]],
            cwd=self.app,
            env=self.env | env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._started.append(started)

    def stop(self) -> None:
        for pid in processes_with(f"FLWR_HOME={self.home}"):
            os.kill(pid, signal.SIGTERM)
        for one in self._started:
            one.wait(60)
        wait_for(lambda: not processes_with(f"FLWR_HOME={self.home}"), 60)


@pytest.fixture
def flower(tmp_path: Path) -> Iterator[Flower]:
    flower = Flower(tmp_path)
    yield flower
    flower.stop()


def is_listening(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return int(tried.getsockname()[1])


@pytest.mark.slow
def test_a_second_job_in_the_simulation_ends_at_the_budget(flower: Flower) -> None:
    config = flower.app / "pyproject.toml"
    private = config.read_text()
    config.write_text(private.replace("private_client", "plain_client"))
    assert "'train_loss': " in flower.run("--run-config", "num-server-rounds=1")
    assert not flower.state.exists()

    config.write_text(private)
    first = flower.run()
    assert "'train_loss'" not in first
    assert "no site trains" not in first
    second = flower.run("--run-config", "num-server-rounds=40")
    assert "no site trains any more. Not one more step fits: epsilon " in second
    assert float(second.rpartition("accuracy ")[2].split()[0]) > 0.8
    shown = fl_dp(
        "ledger", "show", "--rounds", str(flower.state / "fl-dp" / "ledger" / "ledger.sqlite")
    ).stdout
    runs = [
        line.split("run_id `")[1].split("`")[0]
        for line in (first + second).splitlines()
        if "run_id `" in line
    ]
    assert len(runs) == 2
    assert all(f"flower {run}" in shown for run in runs)
    assert {"digits of site 0", "digits of site 1"} == set(steps_paid(flower.state / "fl-dp" / "ledger"))


@pytest.mark.slow
def test_with_a_superlink_each_site_has_a_ledger_of_its_own(flower: Flower, task) -> None:
    """The first has spent its budget elsewhere, the second trains."""
    records = task.train_data(SimpleNamespace(node_config={"partition-id": 0, "num-partitions": 2}))
    with Ledger.open() as ledger:  # in flower.state
        account = ledger.account("digits of site 0", records=records, epsilon=3.0)
        account.pay("a loop", Entry(64 / 700, 2.0, 10_000))
    link, fresh = free_port(), str(flower.state.with_name("fresh"))
    flower.home.mkdir()
    here = f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{link}"\ninsecure = true\n'
    (flower.home / "config.toml").write_text(here)
    flower.start("flower-superlink", "--insecure", "--port", str(link))
    wait_for(lambda: is_listening(link))
    for site, state in enumerate((str(flower.state), fresh)):
        flower.start(
            "flower-supernode",
            "--insecure",
            *("--superlink", f"127.0.0.1:{link}", "--port", str(free_port())),
            *("--node-config", f"partition-id={site} num-partitions=2"),
            XDG_STATE_HOME=state,
        )
    third = flower.run("--run-config", "num-server-rounds=1")
    assert "Received 1 results and 1 failures" in third
    assert "Not one more step fits" in third
    assert steps_paid(Path(fresh) / "fl-dp" / "ledger") == {"digits of site 1": STEPS}
