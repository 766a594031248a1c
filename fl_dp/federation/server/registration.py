"""Registers clients: asks every new node who it is, and recognises clients that come back."""

import logging
import math
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid

from fl_dp.clean_text import one_line
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError, FederationError, FlDpError
from fl_dp.federation.security import security_event
from fl_dp.federation.server.client_record import ClientRecord, record_of, shows_less, total_arithmetic
from fl_dp.federation.server.left_out import BANNED, SilentSites, read_banned
from fl_dp.federation.wire.messages import profile_from_content
from fl_dp.federation.wire.send_receive import (
    give_up,
    pause,
    pull,
    require_answer,
    send,
    site_at,
    sites_of,
)
from fl_dp.records import ClientProfile, Refusal
from fl_dp.reporting.wording import by_reason, counted

logger = logging.getLogger("fl_dp")

PATIENCE = 60.0  # seconds that the first round waits for the answers of nodes that were just asked
LEAST_PATIENCE = 10.0  # the same for later rounds: a busy machine or a lost connection may take as long
RUN_IS_SPENT = "one more step would cost it more than the run's epsilon"
REVOKED = "was revoked: the roster no longer has it"
_LONG = 5.0  # seconds; a site whose accounting takes longer is not asked again at once
_REST = 20.0  # but after this many times as long
RETRY = 10.0  # seconds after which a refused node is asked again, while a round waits for clients


@dataclass(frozen=True, slots=True)
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

    passing: it took part before, so that the fault, such as a full disk, may be temporary. again: when it is
    asked next, unless the next round begins before. who: its site, or its node.
    """

    who: str
    why: str
    passing: bool
    again: float


class Registration:
    """The clients by name, and what is known about their nodes.

    A restarted client comes back as a new node under its old name; the newest node counts. Its ledger must
    show at least what the server has seen in it, so a restored backup is refused. A refused node is asked
    again in the next round, because most faults are temporary. A banned client is never asked; a silent one
    rests, see `SilentSites`, if a round has enough others.

    least_asked: how many clients a round must ask, given how many it could.
    """

    def __init__(self, config: RunConfig, least_asked: Callable[[int], int] = lambda asked: 1) -> None:
        self.clients: dict[str, ClientRecord] = {}
        self.silent = SilentSites()
        self._round, self._first = 0, True  # the round being prepared, and whether it is the first
        self._least_asked = least_asked
        self._banned: frozenset[str] = frozenset()
        self._costly: dict[str, float] = {}  # sites whose accounting took long, and until when they wait
        self._unheard: set[str] = set()  # sites that left before they had registered
        self.answers = 0  # to requests to register, refused ones included
        self._config = config
        self._live: set[int] = set()
        self._asked: dict[str, Question] = {}  # by message id
        self._registered: set[int] = set()
        self._unsure: set[int] = set()  # nodes whose last round is not confirmed
        self._refused: dict[int, Refused] = {}  # by node
        self._announced = ""
        self._grid: Grid | None = None  # the last one used

    def restore(self, clients: Iterable[ClientRecord], registered: Collection[str]) -> None:
        """Restore the clients of a saved state; those not `registered` must register when they come back."""
        self.clients = {client.name: replace(client, run_epsilon=self._config.epsilon) for client in clients}
        self._registered = {client.node_id for client in self.clients.values() if client.name in registered}

    @property
    def registered(self) -> list[str]:
        """The clients that need not register before they take part."""
        return [name for name, client in self.clients.items() if client.node_id in self._registered]

    def begin(self, server_round: int) -> None:
        """Prepare this round, without the clients that are banned by now."""
        self._first, self._round = self._round == 0, server_round
        before = self._banned
        try:
            self._banned = read_banned(Path(self._config.out)) if self._config.out else frozenset()
        except ConfigError as error:  # a mistake of the operator, who is told; no reason to end the run
            logger.error("%s Banned as before: %s", error, ", ".join(sorted(self._banned)) or "nobody")
        for event, names in {"banned": self._banned - before, "unbanned": before - self._banned}.items():
            for name in sorted(names):
                security_event(event, f"from round {server_round} on", who=name)

    def note(self, client: ClientRecord, *, answered: bool) -> None:
        """Note whether the client has answered this round's request, whatever it said."""
        self.silent.note(client.name, self._round, answered=answered)

    def gather(self, grid: Grid) -> list[ClientRecord]:
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
                enough = min(enough, waited)  # so a node that joins again and again cannot delay it for ever
            if len(here) >= self._config.min_clients and (
                late or waited - enough >= patience or not self._expecting()
            ):
                able = self._rested([client for client in here if client.can_take_part()])
                known = len(self.clients) + len(self._refused)  # others may still come, and have budget
                if able or late or waited >= PATIENCE or known >= self._config.clients:
                    return able
            for_good = sum(not one.passing for one in self._refused.values())  # no wait will bring them
            if late or for_good > self._config.clients - self._config.min_clients:
                raise FederationError(self._too_few(len(here), waited))
            self._announce(len(here))
            pause(started)

    def ask_again(self, client: ClientRecord) -> None:
        """Have the client register again before it next takes part."""
        self._registered.discard(client.node_id)
        self._unsure.add(client.node_id)

    def ask_all_again(self) -> None:
        """Have every client register again before it next takes part."""
        self._registered.clear()

    def why_idle(self, client: ClientRecord) -> str:
        """Why the client was not asked for a round; empty if it just was not chosen."""
        sites = sites_of(self._grid) if self._grid else None
        if sites is not None and client.name not in sites:
            return REVOKED
        if client.name in self._banned:
            return BANNED
        if client.reason:
            return client.reason
        if client.node_id not in self._live:
            return "is not there"
        if client.node_id in self._refused:
            return self._refused[client.node_id].why
        if client.node_id in self._unsure:
            return "has not said yet what its last round has cost"
        if client.run_is_spent:
            return RUN_IS_SPENT
        if not client.can_take_part():
            return "no budget is left for one more step"
        return self.silent.why(client.name) if self.silent.rests(client.name, self._round) else ""

    def _here(self) -> list[ClientRecord]:
        known = self._live & self._registered
        found = [client for _, client in sorted(self.clients.items()) if client.node_id in known]
        return [client for client in found if client.name not in self._banned]

    def _rested(self, able: list[ClientRecord]) -> list[ClientRecord]:
        """Those that do not rest, if they are enough for a round; otherwise all."""
        others = [client for client in able if not self.silent.rests(client.name, self._round)]
        least = self._least_asked(min(len(able), self._config.fit_clients))
        return others if len(others) >= max(least, self._config.min_clients) else able

    def _expecting(self) -> bool:
        """Whether to wait for a node that was asked recently."""
        now = time.monotonic()
        return any(one.awaited and now - one.when < PATIENCE for one in self._asked.values())

    def _refresh(self, grid: Grid) -> None:
        """Ask new nodes and retry refused ones, forget those that are gone, and read the answers."""
        self._grid = grid
        self._live = set(grid.get_node_ids())
        self._registered &= self._live
        self._refused = {node: why for node, why in self._refused.items() if node in self._live}
        self._forget_gone(grid)
        self._ask(grid, sorted(self._live - self._registered))
        if self._asked:
            for key, reply in pull(grid, self._asked.keys()).items():
                self._register(self._asked.pop(key), reply)

    def _forget_gone(self, grid: Grid) -> None:
        """Drop requests to nodes that are gone; their sites are not waited for when they join again."""
        gone = {key: one for key, one in self._asked.items() if one.node not in self._live}
        self._asked = {key: one for key, one in self._asked.items() if key not in gone}
        self._unheard |= {one.site for one in gone.values() if one.site is not None}
        give_up(grid, gone)

    def _ask(self, grid: Grid, nodes: Iterable[int]) -> None:
        now, busy = time.monotonic(), {one.node for one in self._asked.values()}
        known = {client.node_id: name for name, client in self.clients.items()}
        questions: list[Question] = []
        for node in nodes:
            refused = self._refused.get(node)
            site = site_at(grid, node) or known.get(node)
            waits = self._costly.get(site or "", now) > now
            if node in busy or site in self._banned or waits:
                continue
            if refused is None or refused.again <= now:
                message = Message(RecordDict(), node, MessageType.QUERY, ttl=self._config.round_timeout)
                # no round waits for a silent site: it may still be training
                silent = site in self._unheard or site in self.silent.state
                awaited = not silent and (refused is None or refused.passing)
                questions.append(Question(message, now, awaited, site))
        sent = send(grid, [one.message for one in questions])
        by_id = {one.message.metadata.message_id: one for one in questions}
        self._asked |= {key: by_id[key] for key in sent}

    def _register(self, question: Question, reply: Message) -> None:
        self.answers += 1
        if reply.has_content():
            self._unheard.discard(question.site or "")
        node, began = question.node, time.monotonic()
        passing = any(client.node_id == node for client in self.clients.values())
        try:
            profile = profile_from_content(require_answer(reply, question.message))
            if isinstance(profile, Refusal):
                raise FederationError(profile.reason)
            passing = profile.client in self._banned
            if passing:
                raise FederationError(f"client {one_line(profile.client)} {BANNED}")
            client = self._recognise(node, profile)
            client.require_accountable()
        except FlDpError as error:
            self._refuse(node, one_line(str(error)), passing=passing, site=question.site)
        else:
            self._refused.pop(node, None)
            self._unsure.discard(node)
            self.clients[client.name] = client
            self._registered.add(node)
        took = time.monotonic() - began
        if question.site is not None and took > _LONG:
            self._costly[question.site] = time.monotonic() + _REST * took

    def _refuse(self, node: int, why: str, *, passing: bool, site: str | None) -> None:
        who = site or f"node {node}"
        if node not in self._refused or self._refused[node].why != why:
            security_event("join refused", why, who=who)
            logger.warning("node %d is no part of this run: %s", node, why)
        self._refused[node] = Refused(who, why, passing, time.monotonic() + RETRY)

    def _recognise(self, node: int, profile: ClientProfile) -> ClientRecord:
        """The record of the client that registers: a new one, or a known one, updated."""
        known = self.clients.get(profile.client)
        if known is None:
            return self._new_record(node, profile)
        if shows_less(profile.spent, known.spent):
            known.reason = (
                f"client {known.name} shows a ledger with fewer steps than it had before: it was restored "
                "from a backup, or retired in the middle of the run. Give it its newest ledger back, or wait "
                "for the next run"
            )
            raise FederationError(known.reason)
        if node != known.node_id:
            logger.warning("client %s is now node %d, no longer node %d", known.name, node, known.node_id)
        if known.mechanism is None or profile.public_size != known.profile.public_size:
            new = self._new_record(node, profile, known.rounds)
            return replace(new, before=known.before, asked=known.asked)
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
        """Log, once, what the round waits for."""
        text = f"waiting for {counted(self._config.min_clients, 'client')}, {here} there"
        if text != self._announced and here < self._config.min_clients:
            logger.info(text)
            self._announced = text

    def _too_few(self, here: int, seconds: float) -> str:
        whys = by_reason((one.who, one.why) for one in self._refused.values())
        refused = f" {len(self._refused)} were refused: {whys}." if self._refused else ""
        return (
            f"A round needs min-clients = {self._config.min_clients} clients, {here} are there "
            f"after {seconds:.0f} s (round-timeout = {self._config.round_timeout:g} s).{refused}"
        )
