"""Ray's few calls without Ray, and a small federation whose clients train for real."""

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Message, MessageType
from flwr.supercore.task_identity import TaskIdentity
from ray.exceptions import ActorDiedError, GetTimeoutError, RayError

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.client import ClientConfig
from fl_dp.config.task import TaskSettings
from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.federation.client.payment import Paid
from fl_dp.federation.server.aggregations import Mean
from fl_dp.federation.wire.arrays import ArraySpec, encode, specs, state_arrays
from fl_dp.federation.wire.messages import ARRAYS, plan_to_content, reply_from_content
from fl_dp.federation.wire.partial_sums import ask_for_sum, group_of, read_sum
from fl_dp.form import Form
from fl_dp.models.build import build_model
from fl_dp.records import Entry, Refusal, RoundPlan
from fl_dp.simulation.actor.shared_data import SharedData, SharedParts
from fl_dp.simulation.actor.training_actor import TrainingActor
from fl_dp.simulation.actor_pool import ActorPool
from fl_dp.simulation.clients import SimulatedClients
from fl_dp.simulation.grid import RoundModel, SimulationGrid
from fl_dp.simulation.work import ActorSettings

sys.path.insert(0, str(Path(__file__).parent))  # for `test_actor_pool`

HANGS = object()  # what a fault says of a call that never ends
FEATURES, CLASSES, CLIENTS, RECORDS = 4, 3, 12, 30


@dataclass
class Handle:
    """An actor of a FakeRay: `handle.method.remote(...)` puts a call into its queue."""

    ray: "FakeRay"
    make: Callable[[], Any]
    number: int
    dead: RayError | None = None
    instance: Any = None
    queue: list["Ref"] = field(default_factory=list)

    def __getattr__(self, method: str) -> Any:
        def remote(*args: Any) -> "Ref":
            ref = Ref(self, method, args)
            self.queue.append(ref)
            return ref

        return SimpleNamespace(remote=remote)


@dataclass(eq=False)
class Ref:
    """A call, and what came of it: "waits", "hangs", or the value or error that it gave."""

    handle: Handle
    method: str
    args: tuple[Any, ...]
    state: str = "waits"
    result: Any = None


class FakeRay:
    """Ray's few calls, in this process: a call is done when somebody waits for it, those before it first.

    fault(ref, ended): asked before and after every call; an error ends the actor there, HANGS lets the call
    never end. Nothing takes time but hanging; `now` is the clock.
    """

    def __init__(self, seed: int = 0) -> None:
        self.now = 0.0
        self.actors: list[Handle] = []
        self.fault: Callable[[Ref, bool], Any] = lambda ref, ended: None
        self._random = random.Random(seed)

    def start_actor(self, make: Callable[[], Any]) -> Handle:
        self.actors.append(Handle(self, make, len(self.actors)))
        return self.actors[-1]

    def put(self, value: Any) -> Any:
        return value

    def kill(self, handle: Handle) -> None:
        handle.dead = handle.dead or ActorDiedError()

    def wait(self, refs: Sequence[Ref], num_returns: int, timeout: float) -> tuple[list[Ref], list[Ref]]:
        for ref in self._random.sample(refs, len(refs)):
            self._run(ref)
            if ref.state == "over":
                return [ref], [other for other in refs if other is not ref]
        self.now += timeout
        return [], list(refs)

    def get(self, ref: Ref, timeout: float) -> Any:
        self._run(ref)
        if ref.state == "hangs":
            self.now += timeout
            raise GetTimeoutError("it hangs")
        if isinstance(ref.result, RayError):
            raise ref.result
        return ref.result

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def _run(self, ref: Ref) -> None:
        for call in ref.handle.queue:
            if call.state == "waits":
                self._run_one(call)
            if call is ref or call.state == "hangs":
                break
        if ref.handle.dead and ref.state != "over":
            ref.state, ref.result = "over", ref.handle.dead
        if ref.state == "waits":
            ref.state = "hangs"  # behind one that does

    def _run_one(self, call: Ref) -> None:
        handle = call.handle
        if not handle.dead and self._struck(call, ended=False):
            return
        if not handle.dead:
            handle.instance = handle.instance or handle.make()
            call.result = getattr(handle.instance, call.method)(*call.args)
            if self._struck(call, ended=True):
                return
        call.state, call.result = "over", handle.dead or call.result

    def _struck(self, call: Ref, ended: bool) -> bool:
        struck = self.fault(call, ended)
        if struck is HANGS:
            call.state = "hangs"
        elif struck is not None:
            call.handle.dead = struck
        return struck is HANGS


def patched(monkeypatch: pytest.MonkeyPatch, fake: FakeRay) -> FakeRay:
    """Actor pool and grid find `fake` where they look for Ray; the pool also finds its clock."""
    for module in ("actor_pool", "grid"):
        monkeypatch.setattr(f"fl_dp.simulation.{module}.ray", fake)
    monkeypatch.setattr("fl_dp.simulation.actor_pool.time", fake)
    return fake


@pytest.fixture
def fake_ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    return patched(monkeypatch, FakeRay())


@pytest.fixture(autouse=True)
def _flower_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower's processes know which task they are; messages cannot be made without."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@dataclass
class Answers:
    """What came of a round: the average of the updates, None without any; and by client, the others' words.

    spent: by client, as each reported it.
    """

    average: Mapping[str, Any] | None
    refused: dict[int, str]
    spent: dict[int, tuple[Entry, ...]]


class Federation:
    """CLIENTS clients of 30 to 52 records each, a linear model, two steps a round; a grid over a pool."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shared = SharedData.of(*_data())
        model = build_model("linear", Form((FEATURES,), CLASSES), seed=1)
        self.start = state_arrays(model)
        self.specs: Mapping[str, ArraySpec] = specs(self.start)
        self.ledger = Ledger.open(folder / "ledger.sqlite")
        self.clients = SimulatedClients(self.config(), SharedParts(self.shared), self.ledger)
        self.work: list[Any] = []

    def config(self) -> ClientConfig:
        return ClientConfig(
            client="0",
            ledger=str(self.folder / "ledger.sqlite"),
            num_partitions=CLIENTS,
            epsilon=50.0,
            delta=1e-5,
            accountant="rdp",
        )

    def settings(self, **changes: Any) -> ActorSettings:
        given = {"physical_batch_size": 64, "memory_mib": 1024, **changes}
        return ActorSettings(task=TaskSettings(), device="cpu", threads=1, **given)

    def actor(self, **settings: Any) -> TrainingActor:
        return TrainingActor(self.shared, self.settings(**settings))

    def grid(self, pool: ActorPool) -> SimulationGrid:
        model = RoundModel(self.specs, {"1.weight": "ghost", "1.bias": "instantiate"})
        return SimulationGrid(self.clients, CLIENTS, pool, lambda plan: model, on_work=self.work.append)

    def grid_of(self, fake: FakeRay, actors: int) -> SimulationGrid:
        """A grid over a pool of so many actors of that FakeRay."""
        return self.grid(ActorPool(lambda: fake.start_actor(self.actor), actors, 600.0, at_once=64))

    def updates(
        self, grid: SimulationGrid, server_round: int = 1, messages: Sequence[Message] = ()
    ) -> dict[int, dict[str, Any]]:
        """Single updates, by client and array: of a round, or of these messages."""
        replies = grid.send_and_receive(messages or self.messages(server_round, summed=False))
        return {
            reply.metadata.src_node_id - 1: {k: array.numpy() for k, array in reply.content[ARRAYS].items()}
            for reply in replies
        }

    def shared_part(self, part: int) -> TensorData:
        return SharedParts(self.shared)[part]

    def plan(self, server_round: int = 1) -> RoundPlan:
        return RoundPlan("run", server_round, "linear", 2, 8, 0.5, 0.0, 1.0, 1.0)

    def messages(
        self, server_round: int = 1, *, arrays: Any = None, summed: bool = True, ttl: float = 3600.0
    ) -> list[Message]:
        """A round's messages to all clients, each of weight one more than its number."""
        weights = encode(arrays or self.start)
        contents = [plan_to_content(self.plan(server_round), weights) for _ in range(CLIENTS)]
        if summed:
            contents = [ask_for_sum(content, k + 1.0) for k, content in enumerate(contents)]
        return [
            Message(content, k + 1, MessageType.TRAIN, ttl=ttl, group_id=str(server_round))
            for k, content in enumerate(contents)
        ]

    def round(self, grid: SimulationGrid, messages: Sequence[Message]) -> Answers:
        """Send the messages, wait for all replies, and average, as the server does."""
        replies = list(grid.send_and_receive(messages))
        assert len(replies) == len(messages)
        weights = {m.metadata.message_id: float(m.metadata.dst_node_id) for m in messages}
        answers, updates, groups = Answers(None, {}, {}), [], {}
        for reply in replies:
            client, group = reply.metadata.src_node_id - 1, group_of(reply)
            result, problem = reply_from_content(reply.content, {} if group else self.specs)
            assert not problem
            if isinstance(result, Refusal):
                answers.refused[client] = result.reason
                continue
            answers.spent[client] = result.spent
            if group:
                groups.setdefault(group, []).append(reply)
            else:
                updates.append((result.arrays, weights[reply.metadata.reply_to_message_id]))
        sums = [read_sum(group, weights, self.specs) for group in groups.values()]
        if updates or sums:
            answers.average = Mean().combine(updates, sums, self.specs)
        return answers

    def steps(self) -> dict[int, int]:
        """What the ledger holds, by client."""
        return {
            int(account.dataset.split("part ")[1].split("/")[0]): sum(
                paid.entry.steps for paid in account.rounds
            )
            for account in self.ledger.accounts()
        }

    def close(self) -> None:
        self.ledger.close()


def _data() -> tuple[TensorData, list[Any]]:
    sizes = [RECORDS + 2 * k for k in range(CLIENTS)]
    random_numbers = np.random.default_rng(0)
    x = torch.from_numpy(random_numbers.normal(size=(sum(sizes), FEATURES)).astype(np.float32))
    y = torch.from_numpy(random_numbers.integers(0, CLASSES, size=sum(sizes)))
    return TensorData(x, y, ("a", "b", "c")), np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])


@pytest.fixture
def federation(tmp_path: Path) -> Any:
    made = Federation(tmp_path)
    yield made
    made.close()


@pytest.fixture
def known_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Payments whose random numbers follow from what they are for, so that two ledgers have the same.

    The noise does without the digest of its sum: else the last bit of a sum would decide all of it.
    """

    def key(self: Paid, weights: str, optimizer: str = "") -> bytes:
        words = f"{self.accepted.client.dataset} {self.accepted.plan} {weights}{optimizer}"
        return sha256(words.encode()).digest()

    monkeypatch.setattr(Paid, "key", key)
    monkeypatch.setattr(Randomness, "digest", lambda self, chunks: bytes(16))


@pytest.fixture
def two_federations(tmp_path: Path, known_keys: None) -> Any:
    """With the same data and keys, and a ledger each: one to disturb, and one not to."""
    made = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        made.append(Federation(tmp_path / name))
    yield made
    for one in made:
        one.close()


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    return SimpleNamespace(HANGS=HANGS, FakeRay=FakeRay, patched=partial(patched, monkeypatch))
