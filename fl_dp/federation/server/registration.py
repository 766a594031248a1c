"""Which clients are there: asks every new node who it is, and knows a client again that comes back."""

import logging
import time
from collections.abc import Collection, Iterable

from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid

from fl_dp.config.run import RunConfig
from fl_dp.errors import AccountingError, FederationError, FlDpError
from fl_dp.federation.server.client_record import ClientRecord, shows_less
from fl_dp.federation.server.planning import round_mechanism
from fl_dp.federation.wire.messages import one_line, profile_from_content
from fl_dp.federation.wire.send_receive import pause, send
from fl_dp.records import PROVEN, ClientProfile, Refusal

logger = logging.getLogger("fl_dp")

PATIENCE = 60.0  # seconds that a round waits for the answers of nodes that were just asked


class Registration:
    """The clients by name, and what is known about the nodes that speak for them.

    A client that was restarted comes back as another node under its name; the newest node speaks.
    Its ledger must show at least what the server has seen in it: a restored backup is refused.
    """

    def __init__(self, config: RunConfig) -> None:
        self.clients: dict[str, ClientRecord] = {}
        self.answers = 0  # of nodes that were asked who they are, the refused ones included
        self._config = config
        self._live: set[int] = set()
        self._asked: dict[str, tuple[int, float]] = {}  # by message id: the node, and when
        self._registered: set[int] = set()
        self._refused: dict[int, str] = {}  # by node: why it takes no part
        self._announced = ""

    def restore(self, clients: Iterable[ClientRecord], registered: Collection[str]) -> None:
        """Know the clients as they were; those that are not `registered` are asked again when they come."""
        self.clients = {client.name: client for client in clients}
        self._registered = {client.node_id for client in self.clients.values() if client.name in registered}

    @property
    def registered(self) -> list[str]:
        """The clients that need not be asked who they are before they take part."""
        return [name for name, client in self.clients.items() if client.node_id in self._registered]

    def gather(self, grid: Grid) -> list[ClientRecord]:
        """Wait until a round can start; the clients, sorted by name, that can take a step in it.

        A round can start when min-clients are there and registered. An empty list means that they are there,
        but that no budget has a step left. FlDpError when they do not come within round-timeout.
        """
        started = time.monotonic()
        while True:
            self._refresh(grid)
            here = self._here()
            waited = time.monotonic() - started
            late = waited >= self._config.round_timeout
            if len(here) >= self._config.min_clients and (late or not self._expecting()):
                able = [client for client in here if client.can_take_part()]
                if able or late or waited >= PATIENCE or not self._unseen():
                    return able
            if late or len(self._refused) > self._config.clients - self._config.min_clients:
                raise FederationError(self._too_few(len(here), waited))
            self._announce(len(here))
            pause(started)

    def ask_again(self, client: ClientRecord) -> None:
        """Ask for the client's ledger before it takes part again."""
        self._registered.discard(client.node_id)

    def ask_all_again(self) -> None:
        """Ask for every ledger before anybody takes part again."""
        self._registered.clear()

    def why_idle(self, client: ClientRecord) -> str:
        """Why the client was not asked for a round; empty if it was only not chosen."""
        if client.reason:
            return client.reason
        if client.node_id not in self._live:
            return "is not there"
        return "" if client.can_take_part() else "has no budget for one more step"

    def _here(self) -> list[ClientRecord]:
        known = self._live & self._registered
        return [client for _, client in sorted(self.clients.items()) if client.node_id in known]

    def _unseen(self) -> bool:
        """Whether there may be clients that have not come yet; they may have budget."""
        return len(self.clients) + len(self._refused) < self._config.clients

    def _expecting(self) -> bool:
        """Whether a node was asked so lately that its answer is worth a wait."""
        now = time.monotonic()
        return any(now - when < PATIENCE for _, when in self._asked.values())

    def _refresh(self, grid: Grid) -> None:
        """Ask the nodes that are new, forget those that are gone, and take in the answers."""
        self._live = set(grid.get_node_ids())
        self._registered &= self._live
        self._refused = {node: why for node, why in self._refused.items() if node in self._live}
        self._asked = {key: (node, when) for key, (node, when) in self._asked.items() if node in self._live}
        busy = {node for node, _ in self._asked.values()}
        strangers = sorted(self._live - self._registered - busy - self._refused.keys())
        questions = [self._question(node) for node in strangers]
        self._asked |= {key: (node, time.monotonic()) for key, node in send(grid, questions).items()}
        if self._asked:
            for reply in grid.pull_messages(list(self._asked)):
                node, _ = self._asked.pop(reply.metadata.reply_to_message_id)
                self._register(node, reply)

    def _question(self, node: int) -> Message:
        return Message(RecordDict(), node, MessageType.QUERY, ttl=self._config.round_timeout)

    def _register(self, node: int, reply: Message) -> None:
        self.answers += 1
        try:
            if reply.has_error():
                raise FederationError(reply.error.reason or "did not answer")
            profile = profile_from_content(reply.content)
            if isinstance(profile, Refusal):
                raise FederationError(profile.reason)
            client = self._recognise(node, profile)
            client.epsilon()  # raises for a history or a delta that cannot be accounted for:
            client.can_take_part()  # such a client is refused here, and does not end the run later
        except FlDpError as error:
            self._refused[node] = one_line(str(error))
            logger.warning("node %d is no part of this run: %s", node, self._refused[node])
        else:
            self.clients[client.name] = client
            self._registered.add(node)

    def _recognise(self, node: int, profile: ClientProfile) -> ClientRecord:
        """The client that registers: a new one, or one that is known, as it stands now."""
        known = self.clients.get(profile.client)
        if known is None:
            return self._client(node, profile)
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
            return self._client(node, profile, known.rounds)
        return ClientRecord(
            profile,
            node,
            profile.spent,
            known.mechanism,
            rounds=known.rounds,
            arithmetic=self._arithmetic(profile),
        )

    def _client(self, node: int, profile: ClientProfile, rounds: int = 0) -> ClientRecord:
        """The client, with what one round does at it, or with the reason why it has no part in the run."""
        mechanism, reason, exhausted = None, "", False
        try:
            mechanism = round_mechanism(profile, self._config)
        except AccountingError as error:
            reason, exhausted = str(error), True
        except FlDpError as error:
            reason = str(error)
        if reason:
            logger.warning("client %s can take no part: %s", profile.client, reason)
        return ClientRecord(
            profile,
            node,
            profile.spent,
            mechanism,
            exhausted=exhausted,
            reason=reason,
            rounds=rounds,
            arithmetic=self._arithmetic(profile),
        )

    def _arithmetic(self, profile: ClientProfile) -> str:
        """Of what the client has spent, and of this run's rounds."""
        return self._config.arithmetic if profile.arithmetic == PROVEN else profile.arithmetic

    def _announce(self, here: int) -> None:
        """Say what is waited for, once."""
        text = f"waiting for {self._config.min_clients} clients, {here} there"
        if text != self._announced and here < self._config.min_clients:
            logger.info(text)
            self._announced = text

    def _too_few(self, here: int, seconds: float) -> str:
        whys = "; ".join(dict.fromkeys(self._refused.values()))  # each reason once
        refused = f" {len(self._refused)} were refused: {whys}." if self._refused else ""
        return (
            f"A round needs min-clients = {self._config.min_clients} clients, {here} are there "
            f"after {seconds:.0f} s (round-timeout = {self._config.round_timeout:g} s).{refused}"
        )
