"""Federated averaging in which no client is believed about its privacy, and no round passes a budget."""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fl_dp.accounting.budget import BudgetReport
from fl_dp.config.run import RunConfig
from fl_dp.errors import FlDpError
from fl_dp.federation.server import status as standing
from fl_dp.federation.server.aggregations.mean import federated_average
from fl_dp.federation.server.client_record import Member
from fl_dp.federation.server.client_sampling import ClientSampler
from fl_dp.federation.server.planning import round_plan
from fl_dp.federation.server.registration import Roster
from fl_dp.federation.server.replies import Verdict, settle
from fl_dp.federation.server.state import ServerState
from fl_dp.federation.server.status import client_budget, client_round
from fl_dp.federation.wire.arrays import ArraySpec, NDArray, encode
from fl_dp.federation.wire.messages import one_line, plan_to_content
from fl_dp.federation.wire.partial_sums import WeightedSum, adds_up, ask_for_sum, group_of, read_sum
from fl_dp.federation.wire.send_receive import collect, post
from fl_dp.records import Entry, RoundPlan
from fl_dp.reporting.reports import ClientBudget, FederationBudget, RoundReport, RunStatus

logger = logging.getLogger("fl_dp")

Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A member that was asked for a round: by which message, and for what."""

    member: Member
    mechanism: Entry
    message: Message


class PrivateFedAvg(Strategy):
    """A Flower strategy, for any Grid.

    run: the run's name in the clients' ledgers; must be new for every run, unless its clients, asked again
    for a round, do what they did before.
    trainable: the arrays that clients send back; the others keep the server's values.
    on_round: called with the report of each round when it is over. on_members: called when clients have
    said hello, before any of them is asked for a round. In both, `state` is what the run can go on from.

    Flower's own loop cannot stop early; `start` replaces it. After it, or after an error in it, `result` and
    `reports` hold all that was reached.
    """

    def __init__(
        self,
        config: RunConfig,
        run: str,
        trainable: Mapping[str, ArraySpec],
        on_round: Callable[[RoundReport], None],
        on_members: Callable[[], None] = lambda: None,
    ) -> None:
        self.result = Result()
        self.reports: list[RoundReport] = []
        self._config, self._run, self._trainable = config, run, trainable
        self._on_round, self._on_members = on_round, on_members
        self._roster = Roster(config)
        self._sampler = ClientSampler(config.sampling, config.fit_clients)
        self._over = 0  # rounds
        self._resumed = self._spent_out = False
        self._global = ArrayRecord()
        self._asked: list[_Asked] = []
        self._verdicts: dict[str, Verdict] = {}
        self._last_round = config.rounds

    def state(self, line: str, seconds: float) -> ServerState:
        """What the run can go on from. line: of the last round's report; seconds: that the run has taken."""
        return ServerState(
            run=self._run,
            settings=self._config.to_flat(),
            rounds=self._over,
            seconds=seconds,
            line=line,
            secret=self._sampler.secret,
            members=list(self._members.values()),
            heard=self._roster.heard,
            arrays={name: array.numpy() for name, array in self.result.arrays.items()},
        )

    def resume(self, state: ServerState) -> None:
        """Let `start`, given the state's arrays, go on after the rounds of `state`.

        Under the same name, which is for clients that do the same again, the round that was begun is done as
        it would have been, from what the ledgers showed before it. Under a new one every client says hello
        first, and until it does counts as having spent a round that nobody knows of.
        """
        self._over, report = state.rounds, state.last_report()
        self._sampler = ClientSampler(self._config.sampling, self._config.fit_clients, state.secret)
        self._resumed = state.run == self._run
        if not self._resumed:
            for member in state.members:
                if member.mechanism:
                    member.count_as_spent(member.mechanism)
        self._roster.restore(state.members, state.heard if self._resumed else ())
        self.result.arrays = encode(state.arrays)
        if report:
            self.reports = [report]
            self._verdicts = {name: Verdict(one.status, one.reason) for name, one in report.clients.items()}

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int | None = None,
        timeout: float | None = None,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Evaluate | None = None,
    ) -> Result:
        """Run the rounds; end early when no client that is there has budget for one more step.

        num_rounds, timeout: as configured unless given. train_config, evaluate_config: not used, what a
        client is asked for comes from the RunConfig. evaluate_fn: gives "loss" and "accuracy" of
        the global model after each round. FlDpError: too few clients within the timeout.
        """
        self.summary()
        self.result.arrays = initial_arrays
        self._last_round = num_rounds or self._config.rounds
        for server_round in range(self._over + 1, self._last_round + 1):
            started = time.monotonic()
            messages = self.configure_train(server_round, self.result.arrays, ConfigRecord(), grid)
            if self._spent_out:
                break
            sent = post(grid, messages)
            # no name for the replies: their arrays would stay until those of the next round are there
            arrays, _ = self.aggregate_train(
                server_round, collect(grid, sent, timeout or self._config.round_timeout)
            )
            self.result.arrays = arrays or self.result.arrays
            due = evaluate_fn and self._evaluation_due(server_round)
            metrics = evaluate_fn(server_round, self.result.arrays) if evaluate_fn and due else None
            if metrics is not None:
                self.result.evaluate_metrics_serverapp[server_round] = metrics
            self._report(server_round, metrics or MetricRecord(), time.monotonic() - started)
        return self.result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Wait for clients, choose among those with budget left, and say what each is asked for.

        No messages: nobody has budget left, or the choice fell on nobody, which a Poisson choice can.
        """
        hellos = self._roster.hellos
        able = self._roster.gather(grid)
        if self._roster.hellos > hellos:
            self._on_members()
        chosen = self._sampler.choose(able, server_round)
        self._spent_out, self._global = not able, arrays
        content = self._contents(adds_up(grid))
        self._asked = [self._ask(member, server_round, content) for member in chosen]
        return [asked.message for asked in self._asked]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Judge every client's round and average the updates that stand; None if there are none."""
        answers = {reply.metadata.reply_to_message_id: reply for reply in replies}
        self._verdicts = {}
        updates: list[tuple[Mapping[str, NDArray], float]] = []
        groups: dict[str, list[tuple[_Asked, Message]]] = defaultdict(list)
        for asked in self._asked:
            reply = answers.get(asked.message.metadata.message_id)
            group = group_of(reply)
            verdict = self._settle(asked, reply, {} if group else self._trainable)
            if verdict.arrays is None:
                continue
            if group and reply:
                groups[group].append((asked, reply))
            else:
                updates.append((verdict.arrays, self._weight(asked.member)))
        sums = [part for group in groups.values() if (part := self._sum(group)) is not None]
        if not updates and not sums:
            return None, None
        average = encode(federated_average(updates, sums, self._trainable))
        return ArrayRecord({**self._global, **average}), None

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """None: an evaluation on clients' data would need a budget of its own."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """None, as nothing was asked."""
        return None

    def summary(self) -> None:
        """Log what is about to be run."""
        c = self._config
        logger.info(
            "%d rounds of %d clients (at least %d there), noise multiplier %s, clipping bound %g, weights %s",
            c.rounds, c.fit_clients, c.min_clients, c.noise_multiplier, c.max_grad_norm, c.weights,
        )  # fmt: skip

    def outcome(self) -> tuple[RunStatus, str]:
        """How the run ended from which `start` has returned, and why, if not as asked."""
        last = self.reports[-1] if self.reports else None
        return standing.outcome(self._members.values(), last, ended_early=self._spent_out)

    def budgets(self) -> dict[str, ClientBudget]:
        """Every client that was ever there, as it stands now, before another such run."""
        return {
            name: client_budget(member, self._verdict(member), self._last_round)
            for name, member in sorted(self._members.items())
        }

    def guarantee(self) -> BudgetReport | None:
        """The federation's epsilon and delta so far; None before the first client."""
        return standing.guarantee(
            self._members.values(), self._config.clients_per_person, private=self._config.private
        )

    def federation(self) -> FederationBudget | None:
        """How all budgets stand before another such run; None before the first client."""
        together = self.guarantee()
        return standing.federation(together, self.budgets(), self._last_round) if together else None

    def _contents(self, in_sum: bool) -> Callable[[RoundPlan, float], RecordDict]:
        """What gives a message's content; clients that are asked for the same share one."""

        @cache
        def content(plan: RoundPlan, weight: float) -> RecordDict:
            alone = plan_to_content(plan, self._global)
            return ask_for_sum(alone, weight) if in_sum else alone

        return content

    def _ask(
        self, member: Member, server_round: int, content: Callable[[RoundPlan, float], RecordDict]
    ) -> _Asked:
        assert member.mechanism is not None  # gather returns members that can take a step
        plan = round_plan(member.profile, member.mechanism, self._config, self._run, server_round)
        message = Message(
            content(plan, self._weight(member)),
            member.node_id,
            MessageType.TRAIN,
            ttl=self._config.round_timeout,  # a client that sees it later does not train for nothing
            group_id=str(server_round),
        )
        return _Asked(member, member.mechanism, message)

    def _settle(self, asked: _Asked, reply: Message | None, expected: Mapping[str, ArraySpec]) -> Verdict:
        verdict = settle(reply, asked.member, asked.mechanism, expected)
        if not verdict.accounted:
            self._roster.greet_again(asked.member)
        if verdict.reason:
            logger.warning("client %s %s: %s", asked.member.name, verdict.status, verdict.reason)
        self._verdicts[asked.member.name] = verdict
        return verdict

    def _sum(self, group: list[tuple[_Asked, Message]]) -> WeightedSum | None:
        """The sum that came for the group; None if it cannot be used, and then none of its updates can."""
        weights = {asked.message.metadata.message_id: self._weight(asked.member) for asked, _ in group}
        try:
            return read_sum([reply for _, reply in group], weights, self._trainable)
        except FlDpError as error:
            reason = one_line(str(error))
        logger.warning("the updates of %d clients are lost: %s", len(group), reason)
        for asked, _ in group:
            asked.member.rounds -= 1
            self._verdicts[asked.member.name] = Verdict("failed", reason)
        return None

    def _evaluation_due(self, server_round: int) -> bool:
        every = self._config.evaluate_every
        return server_round == self._last_round or bool(every and server_round % every == 0)

    def _weight(self, member: Member) -> float:
        return float(member.profile.public_size) if self._config.weights == "declared" else 1.0

    @property
    def _members(self) -> Mapping[str, Member]:
        return self._roster.members

    def _verdict(self, member: Member) -> Verdict:
        return self._verdicts.get(member.name) or _idle(self._roster.why_idle(member))

    def _report(self, server_round: int, metrics: MetricRecord, seconds: float) -> None:
        guarantee = self.guarantee()
        assert guarantee is not None  # a round has clients
        ahead = self._last_round - server_round
        clients = {
            name: client_round(m, self._verdict(m), ahead) for name, m in sorted(self._members.items())
        }
        report = RoundReport(
            round=server_round,
            private=self._config.private,
            epsilon=guarantee.epsilon,
            delta=guarantee.delta,
            federation=standing.federation(guarantee, clients, ahead),
            noise_multiplier=min((asked.mechanism.noise_multiplier for asked in self._asked), default=0.0)
            or None,
            clients=clients,
            loss=_scalar(metrics, "loss"),
            accuracy=_scalar(metrics, "accuracy"),
            seconds=seconds,
        )
        self._over = server_round
        if self._resumed:  # others may have used the ledgers while this run stood still
            self._roster.greet_all_again()
            self._resumed = False
        self.reports.append(report)
        self._on_round(report)


@lru_cache(maxsize=64)
def _idle(reason: str) -> Verdict:
    """Most clients in most rounds are idle, for few reasons."""
    return Verdict("idle", reason)


def _scalar(metrics: MetricRecord, name: str) -> float | None:
    value = metrics.get(name)
    return float(value) if isinstance(value, int | float) else None
