"""A federation of digits in this process: real members, a real grid of sums, and nothing between them."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context, Error, Message, MessageType, RecordDict

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.federation.client.answers import answer
from fl_dp.federation.client.secure_member import take_part
from fl_dp.federation.secure_sum import wire
from fl_dp.federation.secure_sum.grid import SecureGrid
from fl_dp.federation.secure_sum.limits import Identity
from fl_dp.federation.wire.arrays import encode, state_arrays
from fl_dp.federation.wire.messages import plan_to_content, set_metadata
from fl_dp.federation.wire.partial_sums import ask_for_sum
from fl_dp.federation.wire.send_receive import BaseGrid, ask
from fl_dp.form import Form
from fl_dp.kits.keys import SigningKey
from fl_dp.kits.roster import Site
from fl_dp.models.build import build_model
from fl_dp.records import RoundPlan
from fl_dp.tasks.load import task_of

MODEL = build_model("linear", Form((1, 8, 8), 10), seed=1)
NAMES = [name for name, _ in MODEL.named_parameters()]
KEYS = [SigningKey.generate() for _ in range(6)]
PLAN = RoundPlan("run-1", 1, "linear", 1, 64, 0.5, 0.0, 3.0, 1.0, shares=3)


class MemberOfSums:
    """A client's site: its settings, its key, what it keeps between stages."""

    def __init__(self, number: int, of: int, folder: Path, **settings: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        flat = {
            "client": f"site-{number}",
            "ledger": str(folder / "ledger.sqlite"),
            "epsilon": 3.0,
            "partition-id": number,
            "num-partitions": of,
            "accountant": "rdp",
            "device": "cpu",
            "allow-secure-sum": 3,
            **settings,
        }
        self.config = ClientConfig.from_flat(flat)
        self.key = KEYS[number]
        self.kept = b""

    def asked(self, message: Message, roster: Iterable[str]) -> RecordDict:
        """Answers as its loop does; its state stays here."""
        identity = Identity(self.key, frozenset(roster))

        def handle(one: Message, config: ClientConfig) -> RecordDict:
            return take_part(one, config, identity, self.kept)

        context = Context(1, 1, {}, RecordDict(), {})
        content = answer(message, context, handle, lambda context: self.config).content
        self.kept = wire.take_kept(content)
        return content

    def paid(self) -> list[Any]:
        """The entries of its ledger, as rounds; none before it has registered."""
        path = Path(self.config.ledger)
        if not path.exists():
            return []
        with Ledger.open_existing(path) as ledger:
            accounts = ledger.accounts()
        return [one for account in accounts for one in account.rounds]


SILENT = RecordDict()
Hook = Callable[
    [int, str, RecordDict], RecordDict | None
]  # member, stage, what it is asked: None, it is gone; SILENT: it is there, and never answers

Lie = Callable[[int, str, RecordDict], RecordDict]


class Wire(BaseGrid):
    """The grid below: each message is answered at once. hook: may change what a member is asked, or end it.

    lie: may change what it answers. seen: all answers, by stage. A node's number is its member's, and one
    more.
    """

    def __init__(self, members: list[MemberOfSums], hook: Hook, lie: Lie) -> None:
        self.members, self.hook, self.lie = members, hook, lie
        self.seen: list[tuple[int, str, RecordDict]] = []
        self.gone: set[int] = set()
        self._replies: dict[str, Message] = {}
        self._count = 0

    def get_node_ids(self) -> Iterable[int]:
        return range(1, len(self.members) + 1)

    def site_of(self, node: int) -> Site | None:
        return Site(f"site-{node - 1}", KEYS[node - 1].public)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        sent = []
        for message in messages:
            self._count += 1
            set_metadata(message, message_id=str(self._count))
            sent.append(str(self._count))
            if (reply := self._reply(message)) is not None:
                self._replies[sent[-1]] = reply
        return sent

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self._replies.pop(one) for one in list(message_ids) if one in self._replies]

    def _reply(self, message: Message) -> Message | None:
        number = message.metadata.dst_node_id - 1
        stage = wire.stage_of(message.content)
        content = None if number in self.gone else self.hook(number, stage, RecordDict(dict(message.content)))
        if content is SILENT:
            return None
        if content is None:
            self.gone.add(number)
            return Message(Error(1, f"site {number} is no longer connected"), reply_to=message)
        asked = Message(content, message.metadata.dst_node_id, message.metadata.message_type)
        set_metadata(asked, message_id=message.metadata.message_id)
        roster = (one.key.public for one in self.members)
        answered = self.lie(number, stage, self.members[number].asked(asked, roster))
        self.seen.append((number, stage, answered))
        return Message(answered, reply_to=message)


class Federation:
    """clients: how many; settings: of all of them; config: of the run."""

    def __init__(self, folder: Path, clients: int = 5, dropouts: int = 1, **settings: Any) -> None:
        self.members = [MemberOfSums(k, clients, folder / str(k), **settings) for k in range(clients)]
        self._grid: SecureGrid | None = None
        self.config = RunConfig.from_flat(
            {
                "clients": clients,
                "aggregation": f"secure:{dropouts}",
                "round-timeout": 60.0,
            }
        )
        task_of(self.config).form = Form((1, 8, 8), 10)

    def round(
        self,
        hook: Hook = lambda number, stage, asked: asked,
        plan: RoundPlan = PLAN,
        lie: Lie = lambda number, stage, answered: answered,
    ) -> tuple[dict[int, RecordDict | str], Wire]:
        """What the strategy gets of each: a reply's content, or an error's reason; and what was seen."""
        grid, below = self._grid_over(hook, lie)
        weights = encode(state_arrays(MODEL))
        content = ask_for_sum(plan_to_content(plan, weights), 1.0, NAMES)
        messages = {
            node: Message(content, node, MessageType.TRAIN, group_id="1", ttl=60.0)
            for node in grid.get_node_ids()
        }
        return {
            node - 1: one.content if one.has_content() else str(one.error.reason)
            for node, one in ask(grid, messages, 60.0)
        }, below

    def _grid_over(self, hook: Hook, lie: Lie) -> tuple[SecureGrid, Wire]:
        below = Wire(self.members, hook, lie)
        grid = self._grid = self._grid or SecureGrid(below, self.config)
        grid._below = below
        return grid, below


def total_of(replies: dict[int, RecordDict | str]) -> "dict[str, np.ndarray[Any, Any]] | None":
    """The opened sum, by array; None where there is none."""
    for content in replies.values():
        if isinstance(content, RecordDict) and "sum" in content:
            return {name: array.numpy() for name, array in content["sum"].items()}
    return None
