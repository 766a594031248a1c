"""A number that clients send and rounds.jsonl shows takes two files; half of it is noticed before a round.

The fields of `LocalUpdate` are all that leaves a client, and say which of them are shown. Whoever adds one
adds its row to docs/privacy.md as well: tests/test_public_numbers.py asks for that.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FIELD = (
    "records.py",
    '    delta: Annotated[float, Leaves("its operator\'s choice")]\n\n\n'
    "@dataclass(frozen=True, slots=True)\nclass Refusal",
)
ADDED = FIELD[1].replace(
    "\n\n\n", '\n    rounds_before: Annotated[int, Leaves("counted by the ledger", shown=True)]\n\n\n', 1
)
PLACE = ("federation/client/round.py", "budget.epsilon_of(entries), budget.delta\n")
FILLED = "budget.epsilon_of(entries), budget.delta, paid.accepted.plan.server_round - 1\n"

USE = """\
import dataclasses
import tempfile
from pathlib import Path

import numpy as np
from flwr.app import RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.client import ClientConfig
from fl_dp.data.tensor_data import TensorData
from fl_dp.federation.client.attempt import Trained
from fl_dp.federation.client.round import ClientRounds
from fl_dp.federation.server.asking import Asked
from fl_dp.federation.server.client_record import ClientRecord
from fl_dp.federation.server.replies import settle
from fl_dp.federation.server.status import client_round
from fl_dp.federation.wire.arrays import encode, specs
from fl_dp.federation.wire.messages import plan_to_content, update_to_content
from fl_dp.records import Entry, RoundPlan
from fl_dp.reporting.reports import FederationBudget, RoundReport
from flwr.app import Message
import torch

TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
data = TensorData(torch.randn(100, 5), torch.arange(100) % 3, ("a", "b", "c"))
settings = ClientConfig(client="a", ledger="given", epsilon=50.0, delta=1e-5, accountant="rdp")
plan = RoundPlan("run", 3, "linear", 4, 20, 0.5, 0.0, 1.0, 1.0)
arrays = {"w": np.ones(2, np.float32)}
with tempfile.TemporaryDirectory() as folder, Ledger.open(Path(folder) / "ledger.sqlite") as ledger:
    rounds = ClientRounds(ledger)
    (client,) = rounds.register([(settings, data)])
    (profile,) = rounds.profiles([client])
    accepted, _ = rounds.accept([("key", client, plan_to_content(plan, encode({})))])
    paid, _ = rounds.pay(accepted)
    answer = rounds.settle([(paid[0], Trained(arrays))])["key"]
asked = Message(RecordDict(), 1, "train")
reply = Message(update_to_content(answer), reply_to=asked)
record = ClientRecord(profile, 1, (), Entry(0.2, 1.0, 4))
question = Asked(record, record.mechanism, 1.0, asked, False, plan)
verdict = settle(reply, question, specs(arrays))
line = client_round(record, verdict, 0)
budget = FederationBudget(1.0, 1.0, 1.0, ("rdp",), 1, 0, ())
report = RoundReport(3, True, 1.0, 1e-5, budget, 1.0, {"a": line}, None, None, 1.0)
print(verdict.status, report.to_dict()["clients"]["a"]["reported"])
"""


def test_two_files_bring_it_from_the_client_into_the_line(copied: Any) -> None:
    copied.edit(*FIELD, ADDED)
    copied.edit(*PLACE, FILLED)
    assert copied.lines(USE) == ["trained {'steps': 4, 'rounds_before': 2}"]


@pytest.mark.slow
def test_half_of_it_does_not_pass_the_type_checker(copied: Any) -> None:
    copied.edit(*FIELD, ADDED)
    file = "fl_dp/federation/client/round.py"
    settings = Path(__file__).parents[2] / "pyproject.toml"
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(settings), file]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=copied.folder)
    assert 'Missing positional argument "rounds_before" in call to "LocalUpdate"' in result.stdout


def test_a_number_without_a_reason_stops_the_import(copied: Any) -> None:
    copied.edit(*FIELD, ADDED.replace('Annotated[int, Leaves("counted by the ledger", shown=True)]', "int"))
    result = copied.run("import fl_dp.federation.wire.messages")
    assert result.returncode == 1
    assert "LocalUpdate.rounds_before leaves the client: mark it with why it may" in result.stderr
