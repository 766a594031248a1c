"""The federation's rounds: a Flower strategy that trusts no client's privacy claim and exceeds no budget."""

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_type_hints

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fl_dp.config.run import RunConfig
from fl_dp.config.run_settings import POISSON
from fl_dp.errors import ConfigError
from fl_dp.federation.server.ask import Asked, RoundRequests
from fl_dp.federation.server.choose import ClientChoice, secret_of
from fl_dp.federation.server.client_record import ClientRecord
from fl_dp.federation.server.combine import Aggregator
from fl_dp.federation.server.keep import Evaluate, Kept, kept_model
from fl_dp.federation.server.registration import Registration
from fl_dp.federation.server.report import RunReporter, resolved
from fl_dp.federation.server.secure_sum import SecureAggregator
from fl_dp.federation.server.site_metrics import SiteEvaluations
from fl_dp.federation.server.state import RunState
from fl_dp.federation.server.verify import Quorum, ReplyVerifier, count_unanswered, is_update
from fl_dp.federation.wire.arrays import ArraySpec, encode
from fl_dp.federation.wire.send_receive import BaseGrid, ask, own_grid
from fl_dp.reporting.reports import RoundReport, RunStatus, SiteMetrics
from fl_dp.tasks.own_code import no_parts

logger = logging.getLogger("fl_dp")


@dataclass(slots=True)
class StrategyParts:
    """The strategy's parts. A user may replace one; the others keep the promises that their files state.

    Args:
        registration: Which clients there are, and what they declare.
        choosing: Which of them a round asks.
        asking: What each is asked, and its weight in the mean.
        judging: Which answers count, and what unconfirmed ones cost.
        aggregating: New weights from the round's updates.
        reporting: Lines of the run's files and of the console.

    Example:
        >>> from dataclasses import replace
        >>> from fl_dp.federation.server.choose import ClientChoice
        >>> class Half(ClientChoice):
        ...     "Ask as the usual one does, and then half of them."
        >>> def parts(usual, config):
        ...     own = Half(config, usual.registration, lambda: None)
        ...     return replace(usual, choosing=own)
    """

    registration: Registration
    choosing: ClientChoice
    asking: RoundRequests
    judging: ReplyVerifier
    aggregating: Aggregator
    reporting: RunReporter


def usual_parts(
    config: RunConfig, run: str, shared: Mapping[str, ArraySpec], on_registered: Callable[[], None]
) -> StrategyParts:
    aggregating = aggregator_of(config, shared)
    registration = Registration(config)
    return StrategyParts(
        registration,
        ClientChoice(config, registration, on_registered),
        RoundRequests(config, run, registration, shared),
        ReplyVerifier(registration, aggregating.expected),
        aggregating,
        RunReporter(config, registration),
    )


def _checked(parts: object, name: str) -> StrategyParts:
    """`parts`, as the config's strategy made them; ConfigError unless each has the class of its part."""
    if not isinstance(parts, StrategyParts):
        raise no_parts(name, f"it made a {type(parts).__name__}")
    for part, kind in get_type_hints(StrategyParts).items():
        if not isinstance(given := getattr(parts, part), kind):
            raise no_parts(name, f"its {part} is of class {type(given).__name__}, not {kind.__name__}")
    return parts


def aggregator_of(config: RunConfig, shared: Mapping[str, ArraySpec]) -> Aggregator:
    """The part that turns a round's updates into new weights, by the config."""
    return SecureAggregator(config, shared) if config.secure else Aggregator(config, shared)


class PrivateStrategy(Strategy):
    """A Flower strategy, for any Grid: in each round choose, ask, verify, combine, keep, report.

    run: the run's name in the clients' ledgers. Use a name again only to repeat its rounds exactly.
    shared: the parameters that clients send back; the model's other arrays keep the server's values.
    on_round: called with the report of each finished round. on_registered: called when clients have
    registered, or when a sum changes their mechanism, before any of them is asked for a round. Both may save
    `state`, from which the run can resume.
    make_parts: makes the parts; by default the usual ones.

    Flower's own loop cannot stop early; `start` replaces it. When `start` returns or raises, `result` and
    `reports` hold everything so far.
    """

    def __init__(
        self,
        config: RunConfig,
        run: str,
        shared: Mapping[str, ArraySpec],
        on_round: Callable[[RoundReport], None],
        on_registered: Callable[[], None] = lambda: None,
        make_parts: Callable[
            [RunConfig, str, Mapping[str, ArraySpec], Callable[[], None]], StrategyParts
        ] = usual_parts,
    ) -> None:
        self.result = Result()
        self.run = run
        self._config, self._on_round, self._on_registered = config, on_round, on_registered
        parts = _checked(make_parts(config, run, shared, on_registered), config.strategy)  # maybe a user's
        self._parts = parts
        self._kept = kept_model(config, shared)
        self._site_metrics = SiteEvaluations(config, run, parts.registration)
        self._over = 0  # finished rounds
        self._resumed = False
        self._weights = ArrayRecord()  # from which the round's clients start
        self._asked: list[Asked] = []
        self._ever_asked: set[str] = set()  # names of clients, even if they have always declined
        self._unjudged: list[Asked] = []  # may have paid for a round that is not verified yet

    @property
    def reporting(self) -> RunReporter:
        return self._parts.reporting

    @property
    def reports(self) -> list[RoundReport]:
        """Reports of the finished rounds; in a resumed run, from the last one before it resumed."""
        return self.reporting.reports

    @property
    def kept(self) -> Kept | None:
        """The model that is kept beside the last one, if the run keeps one."""
        return self._kept.kept(self.result.arrays)

    def outcome(self) -> tuple[RunStatus, str]:
        """How the run ended, and why, if not as planned. Call it after `start`."""
        return self.reporting.outcome(nobody_left=self._parts.choosing.nobody_left)

    def choose_by_seed(self) -> None:
        """Let the config's seed decide who trains, as in a simulation, where methods are compared."""
        self._parts.choosing.secret = secret_of(self._config.seed)

    def test_accounts(self) -> SiteMetrics | None:
        """What the sites' test records have cost, or may have; None if nothing."""
        known = self._parts.registration.clients.values()
        return self._site_metrics.accounts() if any(one.tests for one in known) else None

    def resolved(self) -> RunConfig:
        """The run's config, with each "auto" replaced that has one value for all."""
        return resolved(self._config, self._parts.registration.clients.values(), self._parts.aggregating)

    def state(self, seconds: float, started: str = "") -> RunState:
        """The state from which the run can resume. seconds: its duration so far; started: when it began."""
        registration = self._parts.registration
        return RunState(
            run=self.run,
            origin=self._parts.asking.origin,
            settings=self._config.to_flat(),
            seconds=seconds,
            started=started,
            last=self.reports[-1] if self.reports else None,
            secret=self._parts.choosing.secret,
            clients=tuple(registration.clients.values()),
            registered=tuple(registration.registered),
            arrays={name: array.numpy() for name, array in self.result.arrays.items()},
            aggregated=self._parts.aggregating.state(),
            kept=self._kept.state(),
        )

    def resume(self, state: RunState) -> None:
        """Let `start`, called with the state's arrays, continue after the rounds of `state`.

        Under the same run name the interrupted round is repeated exactly. Under a new name every client
        registers first. Until it does, one round that the server has not seen counts as spent.
        """
        parts = self._parts
        self._over = state.rounds
        parts.choosing.secret = state.secret
        parts.asking.origin = state.origin
        parts.aggregating.restore(state.aggregated)
        self._kept.restore(state.kept, state.arrays)
        self._resumed = state.run == self.run
        clients: Sequence[ClientRecord] = state.clients
        if not self._resumed:  # a whole round, whatever the run's epsilon had left
            free = [replace(client, run_epsilon=math.inf) for client in clients]
            clients = [one.not_confirming(one.mechanism) if one.mechanism else one for one in free]
        parts.registration.restore(clients, state.registered if self._resumed else ())
        self._site_metrics.count_interrupted(self._over + 1, self._config.rounds)
        self.result.arrays = encode(state.arrays)
        if state.last:
            parts.reporting.restore(state.last)

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
        """Run the rounds; end early when too few clients (`min-updates`) have budget for one more step.

        num_rounds: default, the config's. timeout: Flower's argument; the config's round-timeout applies. A
        shorter timeout is refused: clients are told round-timeout and would pay for a round that is over.
        train_config, evaluate_config: unused; the RunConfig decides what clients are asked for. evaluate_fn:
        returns "loss" and "accuracy" of the global model after each round. FlDpError if too few clients come
        within round-timeout.
        """
        if timeout is not None and not timeout >= self._config.round_timeout:
            raise ConfigError(
                f"timeout = {timeout:g}: shorter than round-timeout = {self._config.round_timeout:g}, within "
                "which clients may answer: later answers would be paid for and lost. Set round-timeout = "
                f"{timeout:g} in the RunConfig."
            )
        try:
            self.summary()
            self.result.arrays = initial_arrays
            self._kept.begin(initial_arrays, evaluate_fn)
            last_round = self.reporting.last_round = num_rounds or self._config.rounds
            for server_round in range(self._over + 1, last_round + 1):
                if not self._round(own_grid(grid), server_round, evaluate_fn):
                    break
            return self.result
        finally:
            self._count_unjudged()

    def _round(self, grid: BaseGrid, server_round: int, evaluate_fn: Evaluate | None) -> bool:
        """Run one round; False if no client is left that could take part."""
        started = time.monotonic()
        self.configure_train(server_round, self.result.arrays, ConfigRecord(), grid)
        if self._parts.choosing.nobody_left:
            return False
        # a variable for the replies would keep their arrays in memory until the next round's arrive
        arrays, _ = self.aggregate_train(server_round, self._replies(grid))
        if arrays:
            self.result.arrays = arrays
            self._kept.add(arrays)
        metrics = self._evaluate(server_round, evaluate_fn)
        self._roll_back_if_diverged(server_round, metrics)
        self.reporting.site_metrics = self._site_metrics.measure(
            grid, server_round, self.reporting.last_round, self._kept.measured(self.result.arrays)
        )
        report = self.reporting.report(server_round, self._asked, metrics, time.monotonic() - started)
        self._over = server_round
        if self._resumed:  # other runs may have used the ledgers while this run was stopped
            self._parts.registration.ask_all_again()
            self._resumed = False
        self._on_round(report)
        return True

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Wait for clients, choose among those with budget left, and make the request for each.

        Empty if nobody has budget left, or if a Poisson choice is empty.
        """
        parts, own, self._weights = self._parts, own_grid(grid), arrays
        parts.registration.begin(server_round)
        chosen = self._enough(parts.choosing.choose(own, server_round))
        in_sum = own.adds_up and not parts.aggregating.needs_single_updates
        if self._config.secure and not in_sum:
            raise ConfigError(
                'aggregation = "secure": this grid opens no sums; use run.sh, server.py or fl_dp.'
            )
        known = {one.name: one.mechanism for one in chosen}
        asked = parts.asking.ask(chosen, server_round, arrays, in_sum=in_sum)
        if any(one.client.mechanism != known[one.client.name] for one in asked):
            self._on_registered()  # a run that is killed now resumes with what they may have paid
        self._asked = self._unjudged = asked
        return [asked.message for asked in self._asked]

    def _enough(self, chosen: Sequence[ClientRecord]) -> Sequence[ClientRecord]:
        """`chosen`, or nobody if they are fewer than min-updates: they would pay for a lost round.

        With Poisson sampling the next draw may be larger. Otherwise too few clients have budget left, and the
        run ends.
        """
        if not chosen or len(chosen) >= self._parts.aggregating.least_asked(len(chosen)):
            return chosen
        if self._config.sampling != POISSON:
            self._parts.choosing.nobody_left = True
        return []

    def _replies(self, grid: BaseGrid) -> list[Message]:
        """The replies until the round is closed. A grid that adds them up decides itself when to close."""
        asked = {one.client.name: one for one in self._asked}
        messages, seconds = {name: one.message for name, one in asked.items()}, self._config.round_timeout
        if grid.adds_up:
            return [reply for _, reply in ask(grid, messages, seconds)]
        never = {name for name, one in asked.items() if not one.client.asked} - self._ever_asked
        self._ever_asked |= asked.keys()
        quorum = Quorum(
            {name: one.mechanism.steps for name, one in asked.items()},
            self._parts.aggregating.least_updates(len(asked)),
            lambda name, reply: is_update(reply, asked[name], self._parts.aggregating.expected),
            new=never,
        )
        return [quorum.noted(name, reply) for name, reply in ask(grid, messages, seconds, quorum.is_closed)]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Verify every client's reply and aggregate the valid updates; None if there are none."""
        parts = self._parts
        result = parts.judging.judge(self._asked, replies)
        self._unjudged = []
        parts.reporting.verdicts = result.verdicts
        arrays = parts.aggregating.aggregate(self._weights, result)
        parts.reporting.lost = parts.aggregating.lost
        parts.reporting.opened = parts.aggregating.opened
        if parts.aggregating.lost:
            logger.warning("round %d is lost but paid for: %s", server_round, parts.aggregating.lost)
        return arrays, None

    def _evaluate(self, server_round: int, evaluate_fn: Evaluate | None) -> MetricRecord:
        """Metrics of the global model, or of the average if that is kept; empty without test data."""
        model = self._kept.measured(self.result.arrays)
        metrics = evaluate_fn(server_round, model) if evaluate_fn else None
        if metrics is None:
            return MetricRecord()
        self.result.evaluate_metrics_serverapp[server_round] = metrics
        return metrics

    def _roll_back_if_diverged(self, server_round: int, metrics: MetricRecord) -> None:
        """Keep the measured model if it is the best so far; go back to the best if this one has diverged."""
        diverged = self._kept.update(server_round, self.result.arrays, metrics)
        if diverged and self.kept:
            logger.warning("round %d is rolled back but paid for: %s", server_round, diverged)
            self.reporting.lost = self.reporting.lost or diverged
            self.result.arrays = self.kept.arrays
            self._parts.aggregating.forget_steps()

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """No messages: `SiteEvaluations` asks for evaluations, which sites pay for."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """None, because no client was asked."""
        return None

    def summary(self) -> None:
        self.reporting.announce()

    def _count_unjudged(self) -> None:
        """Count unverified rounds as spent, only in the summary: a resumed run asks again."""
        if self._unjudged:
            self.reporting.verdicts = count_unanswered(self._parts.registration, self._unjudged)
            self._unjudged = []
