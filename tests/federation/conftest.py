"""A Flower Grid in memory, and clients of all characters to put on it."""

import hashlib
import itertools
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from federation.client.sites import Site
from flwr.app import Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from local_updates import local_update

from fl_dp.accounting.calibration import steps_that_fit
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.events import merge
from fl_dp.federation.wire.messages import (
    plan_from_content,
    profile_to_content,
    refusal_to_content,
    set_metadata,
    update_to_content,
)
from fl_dp.federation.wire.send_receive import BaseGrid
from fl_dp.form import Form
from fl_dp.models.build import build_model
from fl_dp.records import ClientProfile, Entry, LocalUpdate, Refusal, RoundPlan

Node = Callable[[Message], Message | None]


class FakeGrid(BaseGrid):
    """Nodes answer when they are asked; a node that returns None never does."""

    def __init__(self, nodes: dict[int, Node] | None = None) -> None:
        self.nodes = dict(nodes or {})
        self.sent: list[Message] = []
        self._replies: dict[str, Message] = {}
        self._ids = itertools.count(1)

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return [self._push(message) for message in messages]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self._replies.pop(i) for i in list(message_ids) if i in self._replies]

    def _push(self, message: Message) -> str:
        # as long as Flower's: nobody meets another's by changing a letter
        message_id = hashlib.sha256(str(next(self._ids)).encode()).hexdigest()
        set_metadata(message, message_id=message_id)
        self.sent.append(message)
        node = self.nodes.get(message.metadata.dst_node_id)
        reply = node(message) if node else Message(Error(1, "node unavailable"), reply_to=message)
        if reply is not None:
            self._replies[message_id] = reply
        return message_id

    def trained(self) -> list[int]:
        """Nodes that were asked to train, in order."""
        return [m.metadata.dst_node_id for m in self.sent if m.metadata.message_type == "train"]


@dataclass
class FakeClient:
    """An honest client that adds 1 to every weight; tests change what it says or does."""

    name: str = "0"
    public_size: int = 640
    epsilon: float = 3.0
    delta: float = 1e-5
    spent: tuple[Entry, ...] = ()
    arithmetic: str = "proven"  # of what it has spent
    lie: Callable[[LocalUpdate], LocalUpdate] = lambda update: update
    # round -> what happens instead of an answer: None for silence, a Refusal, or a message's content
    mishaps: dict[int, Any] = field(default_factory=dict)
    plans: list[RoundPlan] = field(default_factory=list)

    def __call__(self, message: Message) -> Message | None:
        if message.metadata.message_type == "query":
            return Message(profile_to_content(self.profile()), reply_to=message)
        plan, arrays = plan_from_content(message.content)
        self.plans.append(plan)
        if plan.server_round in self.mishaps:
            return self._mishap(message, self.mishaps[plan.server_round])
        received = {name: array.numpy() for name, array in arrays.items() if name != "frozen"}
        return Message(self._train(plan, received), reply_to=message)

    def profile(self) -> ClientProfile:
        return ClientProfile(
            self.name,
            self.public_size,
            self.epsilon,
            self.delta,
            self.spent,
            "rdp",
            arithmetic=self.arithmetic,
            allow_secure_sum=True,
        )

    def _mishap(self, message: Message, mishap: Any) -> Message | None:
        if mishap is None:
            return None
        content = refusal_to_content(mishap) if isinstance(mishap, Refusal) else mishap
        return Message(content, reply_to=message)

    def _train(self, plan: RoundPlan, received: dict[str, Any]) -> RecordDict:
        rate = plan.expected_batch_size / self.public_size
        asked = Entry(rate, plan.noise_multiplier, plan.steps)
        steps = steps_that_fit(asked, self.epsilon, self.delta, spent=self.spent, accountant="rdp")
        if not steps:
            return refusal_to_content(Refusal("declined", "budget spent", budget_exhausted=True))
        self.spent = merge((*self.spent, asked.taking(steps)))
        update = local_update(
            arrays={name: np.float32(array + 1) for name, array in received.items()},
            spent=self.spent,
            steps=steps,
            epsilon=compute_epsilon(self.spent, self.delta, "rdp"),
            delta=self.delta,
        )
        return update_to_content(self.lie(update))


def refuse(status: Any, reason: str) -> Node:
    """A node that answers everything with a refusal."""
    return lambda message: Message(refusal_to_content(Refusal(status, reason)), reply_to=message)


class RealClient(Site):
    """On 100 records of its own, which tests may replace."""

    model = build_model("linear", Form((4,), 3), seed=1)

    def __init__(self, folder: Path, **settings: Any) -> None:
        folder.mkdir()
        self.ledger, self.data = folder / "ledger.sqlite", folder / "data.npz"
        own = {
            "client": folder.name,
            "data": f"npz:{self.data}",
            "num-partitions": 1,
            "public-size": 100,
            "epsilon": 2.0,
        }
        super().__init__(folder, **own | settings)
        x = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
        self.give(x, np.arange(100) % 3)

    def give(self, x: Any, y: Any) -> None:
        """Put these records in the place of its data."""
        np.savez(self.data, x_train=x, y_train=y, classes=["a", "b", "c"])

    ask = Site.call

    def back_up(self) -> None:
        shutil.copy(self.ledger, f"{self.ledger}.backup")

    def restore(self) -> None:
        """Put the ledger back as it was at `back_up`."""
        for suffix in ("-wal", "-shm"):
            Path(f"{self.ledger}{suffix}").unlink(missing_ok=True)
        shutil.copy(f"{self.ledger}.backup", self.ledger)


@pytest.fixture
def real_client(tmp_path: Path) -> Callable[..., RealClient]:
    def make(name: str = "hospital", **settings: Any) -> RealClient:
        return RealClient(tmp_path / name, **settings)

    return make


@pytest.fixture(autouse=True)
def _flower_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower's processes know which task they are; messages cannot be made without."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.fixture
def fakes() -> SimpleNamespace:
    return SimpleNamespace(Grid=FakeGrid, Client=FakeClient, Refusal=Refusal, refuse=refuse)
