"""Registers clients: asks each new node who it is, and recognises clients that come back."""

import logging
import math
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from flwr.app import Message, MessageType, RecordDict

from fl_dp.clean_text import one_line
from fl_dp.config.run import RunConfig
from fl_dp.errors import FederationError, FlDpError
from fl_dp.federation.security import security_event
from fl_dp.federation.server.client_record import ClientRecord, record_of, shows_less, total_arithmetic
from fl_dp.federation.wire.messages import profile_from_content
from fl_dp.federation.wire.send_receive import BaseGrid, pause, pull, require_answer, send
from fl_dp.records import ClientProfile, Refusal
from fl_dp.reporting.wording import by_reason, counted

logger = logging.getLogger("fl_dp")

PATIENCE = 60.0  # seconds for which the first round waits for nodes that were just asked
LEAST_PATIENCE = 10.0  # the same for later rounds: a busy machine or a lost connection may take that long
RUN_IS_SPENT = "one more step would cost it more than the run's epsilon"
REVOKED = "was revoked: the roster no longer has it"
SILENT = "did not answer two rounds in a row; it is asked again when the run is resumed"
_MISSES = 2  # rounds in a row without an answer, after which a site is not asked any more
RETRY = 10.0  # seconds after which a refused node is asked again, while a round waits for clients


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A request to register. awaited: whether a round waits for the answer. site: its name, if known."""

    message: Message
    when: float
    awaited: bool
    site: str | None

    @property
    def node(self) -> int:
        return self.message.metadata.dst_node_id


@dataclass(frozen=True, slots=True)
class Refused:
    """A node that does not take part.

    passing: it took part before, so its fault, such as a full disk, may be temporary. again: when it is asked
    next, unless the next round begins earlier. who: its site, or its node.
    """

    who: str
    why: str
    passing: bool
    again: float


class Registration:
    """The clients by name, and what is known about their nodes.

    A restarted client comes back as a new node under its old name; the newest node counts. Its ledger must
    show at least what the server has seen in it, so a restored backup is refused. A refused node is asked
    again in the next round, because most faults are temporary. A client that did not answer two rounds in a
    row is not asked any more: each time, the round would wait for it and it might pay. It may still register,
    so that its cost is known.
    """

    def __init__(self, config: RunConfig) -> None:
        self.clients: dict[str, ClientRecord] = {}
        self._missed: dict[str, int] = {}  # by name, how many rounds in a row are unanswered; never saved
        self._round, self._first = 0, True  # the round being prepared, and whether it is the first
        self.answers = 0  # to requests to register, refused ones included
        self._config = config
        self._live: set[int] = set()
        self._asked: dict[str, Question] = {}  # by message id
        self._registered: set[int] = set()
        self._unsure: set[int] = set()  # nodes whose last round is not confirmed
        self._refused: dict[int, Refused] = {}  # by node
        self._announced = ""
        self._grid: BaseGrid | None = None  # the last one used

    def restore(self, clients: Iterable[ClientRecord], registered: Collection[str]) -> None:
        """Restore the clients of a saved state; those not `registered` must register when they come back."""
        self.clients = {client.name: replace(client, run_epsilon=self._config.epsilon) for client in clients}
        self._registered = {client.node_id for client in self.clients.values() if client.name in registered}

    @property
    def registered(self) -> list[str]:
        """The clients that need not register before they take part."""
        return [name for name, client in self.clients.items() if client.node_id in self._registered]

    def update(self, client: ClientRecord) -> ClientRecord:
        """Put this record of a known client in the place of the earlier one; returns it."""
        self.clients[client.name] = client
        return client

    def begin(self, server_round: int) -> None:
        self._first, self._round = self._round == 0, server_round

    def note(self, client: ClientRecord, *, answered: bool) -> None:
        """Note whether the client has answered this round's request, whatever it said."""
        if answered:
            self._missed.pop(client.name, None)
        else:
            self._missed[client.name] = self._missed.get(client.name, 0) + 1

    def gather(self, grid: BaseGrid) -> list[ClientRecord]:
        """Wait until a round can start; returns the clients that can take a step in it, sorted by name.

        A round can start when min-clients are there and registered. An empty list means that they are there,
        but have no budget left for a step. FlDpError if they do not come within round-timeout.
        """
        started, enough = time.monotonic(), math.inf
        patience = PATIENCE if self._first else LEAST_PATIENCE
        self._refused = {node: replace(one, again=started) for node, one in self._refused.items()}
        while True:
            self._refresh(grid)
            here = self._here()
            waited = time.monotonic() - started
            late = waited >= self._config.round_timeout
            if len(here) >= self._config.min_clients:
                enough = min(enough, waited)  # a node that joins again and again must not delay it for ever
            if len(here) >= self._config.min_clients and (
                late or waited - enough >= patience or not self._expecting()
            ):
                able = [client for client in here if client.can_take_part()]
                known = len(self.clients) + len(self._refused)  # others may still come with budget
                if able or late or waited >= PATIENCE or known >= self._config.clients:
                    return able
            refused = {one.who for one in self._refused.values() if not one.passing}
            for_good = refused | self._silent()  # no wait will bring them
            # more sites than planned may know of the run
            every = max(self._config.clients, len(self.clients.keys() | for_good))
            too_few = len(here) < self._config.min_clients
            if late or (too_few and every - len(for_good) < self._config.min_clients):
                raise FederationError(self._too_few(len(here), waited))
            self._announce(len(here))
            pause(started)

    def ask_again(self, client: ClientRecord) -> None:
        self._registered.discard(client.node_id)
        self._unsure.add(client.node_id)

    def ask_all_again(self) -> None:
        self._registered.clear()

    def why_idle(self, client: ClientRecord) -> str:
        """Why the client was not asked for a round; empty if it just was not chosen."""
        sites = self._grid.sites if self._grid else None
        if sites is not None and client.name not in sites:
            return REVOKED
        if client.reason:
            return client.reason
        if client.name in self._silent():
            return SILENT
        if client.node_id not in self._live:
            return "is not there"
        if client.node_id in self._refused:
            return self._refused[client.node_id].why
        if client.node_id in self._unsure:
            return "has not yet shown what its last round cost"
        if client.run_is_spent:
            return RUN_IS_SPENT
        if not client.can_take_part():
            return "no budget is left for one more step"
        return ""

    def _silent(self) -> set[str]:
        return {name for name, times in self._missed.items() if times >= _MISSES}

    def _here(self) -> list[ClientRecord]:
        known = self._live & self._registered
        names = sorted(self.clients.keys() - self._silent())
        return [self.clients[name] for name in names if self.clients[name].node_id in known]

    def _expecting(self) -> bool:
        """Whether to wait for a node that was asked recently."""
        now = time.monotonic()
        return any(one.awaited and now - one.when < PATIENCE for one in self._asked.values())

    def _refresh(self, grid: BaseGrid) -> None:
        """Ask new nodes and retry refused ones, forget those that are gone, and read the answers."""
        self._grid = grid
        self._live = set(grid.get_node_ids())
        self._registered &= self._live
        self._refused = {node: why for node, why in self._refused.items() if node in self._live}
        self._forget_gone(grid)
        self._ask(grid, sorted(self._live - self._registered))
        if self._asked:
            for question, reply in pull(grid, self._asked):
                self._register(question, reply)

    def _forget_gone(self, grid: BaseGrid) -> None:
        gone = [key for key, one in self._asked.items() if one.node not in self._live]
        for key in gone:
            del self._asked[key]
        grid.give_up(gone)

    def _ask(self, grid: BaseGrid, nodes: Iterable[int]) -> None:
        now, busy = time.monotonic(), {one.node for one in self._asked.values()}
        known = {client.node_id: name for name, client in self.clients.items()}
        questions: list[Question] = []
        for node in nodes:
            refused, there = self._refused.get(node), grid.site_of(node)
            site = there.name if there else known.get(node)
            if node in busy:
                continue
            if refused is None or refused.again <= now:
                message = Message(RecordDict(), node, MessageType.QUERY, ttl=self._config.round_timeout)
                # no round waits for a site that missed the last one: it may still be training
                awaited = site not in self._missed and (refused is None or refused.passing)
                questions.append(Question(message, now, awaited, site))
        self._asked |= send(grid, {one: one.message for one in questions})

    def _register(self, question: Question, reply: Message) -> None:
        self.answers += 1
        node = question.node
        try:
            profile = profile_from_content(require_answer(reply, question.message))
            if isinstance(profile, Refusal):
                raise FederationError(profile.reason)
            client = self._recognise(node, profile)
            client.require_accountable()
        except FlDpError as error:
            passing = any(client.node_id == node for client in self.clients.values())
            self._refuse(node, one_line(str(error)), passing=passing, site=question.site)
        else:
            self._refused.pop(node, None)
            self._unsure.discard(node)
            self.update(client)
            self._registered.add(node)

    def _refuse(self, node: int, why: str, *, passing: bool, site: str | None) -> None:
        who = site or f"node {node}"
        if node not in self._refused or self._refused[node].why != why:
            security_event("join refused", why, who=who)
            logger.warning("node %d does not take part in this run: %s", node, why)
        self._refused[node] = Refused(who, why, passing, time.monotonic() + RETRY)

    def _recognise(self, node: int, profile: ClientProfile) -> ClientRecord:
        """The record of the client that registers: a new one, or a known one, updated."""
        known = self.clients.get(profile.client)
        if known is None:
            return self._new_record(node, profile)
        if shows_less(profile.spent, known.spent):
            reason = (
                f"client {known.name} shows a ledger with fewer steps than before: it was restored from a "
                "backup, or retired during the run. Give it its newest ledger back, or wait for the next run"
            )
            self.update(replace(known, reason=reason))
            raise FederationError(reason)
        if node != known.node_id:
            logger.warning("client %s is now node %d, no longer node %d", known.name, node, known.node_id)
        if known.mechanism is None or profile.public_size != known.profile.public_size:
            new = self._new_record(node, profile, known.rounds)
            return replace(new, before=known.before, asked=known.asked, tests=known.tests)
        return replace(
            known,
            profile=profile,
            node_id=node,
            spent=profile.spent,
            unconfirmed=(),
            exhausted=False,
            reason="",
            arithmetic=total_arithmetic(profile, self._config),
        )

    def _new_record(self, node: int, profile: ClientProfile, rounds: int = 0) -> ClientRecord:
        client = record_of(profile, self._config, node, rounds)
        if client.reason:
            logger.warning("client %s cannot take part: %s", profile.client, client.reason)
        return client

    def _announce(self, here: int) -> None:
        text = f"waiting for {counted(self._config.min_clients, 'client')}, {here} connected"
        if text != self._announced and here < self._config.min_clients:
            logger.info(text)
            self._announced = text

    def _too_few(self, here: int, seconds: float) -> str:
        whys = by_reason((one.who, one.why) for one in self._refused.values())
        refused = f" {len(self._refused)} refused: {whys}." if self._refused else ""
        silent = "".join(f" {name} {SILENT}." for name in sorted(self._silent()))
        return (
            f"A round needs min-clients = {self._config.min_clients} clients, {here} are connected after "
            f"{seconds:.0f} s (round-timeout = {self._config.round_timeout:g} s).{refused}{silent}"
        )
