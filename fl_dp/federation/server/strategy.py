"""The rounds of a federation in which no client is believed about its privacy, and no budget is passed."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fl_dp.accounting.budget import BudgetReport
from fl_dp.config.run import AVERAGE, BEST, POISSON, RunConfig
from fl_dp.errors import ConfigError
from fl_dp.federation.server.asking import Asked
from fl_dp.federation.server.averaging import Averaging
from fl_dp.federation.server.client_record import ClientRecord
from fl_dp.federation.server.closing import Closing
from fl_dp.federation.server.judging import count_unanswered
from fl_dp.federation.server.keeping import Evaluate, Keeping
from fl_dp.federation.server.replies import is_update
from fl_dp.federation.server.resolved import resolved
from fl_dp.federation.server.state import ServerState
from fl_dp.federation.server.strategy_parts import StrategyParts, usual_parts
from fl_dp.federation.wire.arrays import ArraySpec, encode
from fl_dp.federation.wire.partial_sums import adds_up
from fl_dp.federation.wire.send_receive import receive, send
from fl_dp.records import NUMERICS
from fl_dp.reporting.reports import ClientBudget, FederationBudget, RoundReport, RunStatus

logger = logging.getLogger("fl_dp")

__all__ = ["Evaluate", "PrivateStrategy", "StrategyParts", "usual_parts"]


class PrivateStrategy(Strategy):
    """A Flower strategy, for any Grid: in each round choose, ask, judge, aggregate, report.

    run: the run's name in the clients' ledgers. A name may be used again only if its clients replay their
    rounds exactly.
    shared: the parameters that clients send back; the model's other arrays keep the server's values.
    on_round: called with the report of each round when it is over. on_registered: called when clients have
    registered, before any of them is asked for a round. In both, `state` is what the run can go on from.
    make_parts: gives the parts, where they are not the usual ones.

    Flower's own loop cannot stop early; `start` replaces it. After it, or after an error in it, `result` and
    `reports` hold all that was reached.
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
        self._config, self._run, self._on_round = config, run, on_round
        parts: object = make_parts(config, run, shared, on_registered)  # maybe a user's
        if not isinstance(parts, StrategyParts):
            raise ConfigError(
                f"strategy = {config.strategy!r}: made {type(parts).__name__}, expected StrategyParts."
            )
        self._parts = parts
        self._keeping = Keeping(on=config.keep_model == BEST)
        self._averaging = Averaging(config.average_decay if config.keep_model == AVERAGE else None, shared)
        self._over = 0  # rounds
        self._resumed = False
        self._weights = ArrayRecord()  # that the round's clients start from
        self._asked: list[Asked] = []
        self._ever_asked: set[str] = set()  # clients; also those that have declined ever since
        self._unjudged: list[Asked] = []  # who may have paid for a round that is not judged yet

    @property
    def reports(self) -> list[RoundReport]:
        """Reports of the finished rounds; after a resumption, from the last finished round on."""
        return self._parts.reporting.reports

    def state(self, line: str, seconds: float, started: str = "") -> ServerState:
        """What the run can go on from. line: of the last round's report; seconds: that the run has taken;
        started: when."""
        registration = self._parts.registration
        return ServerState(
            run=self._run,
            origin=self._parts.asking.origin,
            settings=self._config.to_flat(),
            numerics=NUMERICS,
            rounds=self._over,
            seconds=seconds,
            started=started,
            line=line,
            secret=self._parts.choosing.secret,
            clients=list(registration.clients.values()),
            registered=registration.registered,
            missed=registration.silent.state,
            arrays={name: array.numpy() for name, array in self.result.arrays.items()},
            aggregated=self._parts.aggregating.state() | self._keeping.state() | self._averaging.state(),
        )

    def resume(self, state: ServerState) -> None:
        """Let `start`, given the state's arrays, go on after the rounds of `state`.

        Under the same name the round that was begun is repeated exactly. Under a new name every client
        registers first; until it does, it counts as having spent one round that the server has not seen.
        """
        parts = self._parts
        self._over, report = state.rounds, state.last_report()
        parts.choosing.restore(state.secret)
        parts.asking.origin = state.origin
        rest = self._averaging.restore(self._keeping.restore(state.aggregated), state.arrays)
        parts.aggregating.restore(rest)
        self._resumed = state.run == self._run
        if not self._resumed:
            for client in state.clients:
                if client.mechanism:
                    client.count_as_spent(client.mechanism)
        parts.registration.restore(state.clients, state.registered if self._resumed else ())
        parts.registration.silent.restore(state.missed)
        self.result.arrays = encode(state.arrays)
        if report:
            parts.reporting.restore(report)

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
        """Run the rounds; end early when too few for one (`min-updates`) have budget for one more step.

        num_rounds: as configured unless given. timeout: Flower's; the config's round-timeout is what counts,
        and a shorter one is refused. train_config, evaluate_config: not used, what a
        client is asked for comes from the RunConfig. evaluate_fn: gives "loss" and "accuracy" of
        the global model after each round. FlDpError: too few clients within round-timeout.
        """
        self._check_timeout(timeout)
        try:
            return self._rounds(grid, initial_arrays, num_rounds, evaluate_fn)
        finally:
            self._count_unjudged()

    def _check_timeout(self, timeout: float | None) -> None:
        """ConfigError for one that would end rounds while clients, told of round-timeout, train and pay."""
        if timeout is not None and not timeout >= self._config.round_timeout:
            raise ConfigError(
                f"timeout = {timeout:g}: shorter than round-timeout = {self._config.round_timeout:g}, within "
                "which clients are asked to answer: what came later would be paid for and lost. Set "
                f"round-timeout = {timeout:g} in the RunConfig."
            )

    def _rounds(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int | None,
        evaluate_fn: Evaluate | None,
    ) -> Result:
        self.summary()
        self.result.arrays = initial_arrays
        self._keeping.begin(self.result.arrays, evaluate_fn)
        last_round = self._parts.reporting.last_round = num_rounds or self._config.rounds
        for server_round in range(self._over + 1, last_round + 1):
            started = time.monotonic()
            messages = self.configure_train(server_round, self.result.arrays, ConfigRecord(), grid)
            if self._parts.choosing.nobody_left:
                break
            sent = send(grid, messages)
            # no name for the replies: their arrays would stay until those of the next round are there
            arrays, _ = self.aggregate_train(server_round, self._receive(grid, sent))
            if arrays:
                self.result.arrays = arrays
                self._averaging.add(arrays)
            metrics = self._evaluate(server_round, evaluate_fn)
            self._keep(server_round, metrics)
            self._end_round(server_round, metrics, time.monotonic() - started)
        return self.result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Wait for clients, choose among those with budget left, and say what each is asked for.

        No messages: nobody has budget left, or the choice fell on nobody, which a Poisson choice can.
        """
        parts, self._weights = self._parts, arrays
        parts.registration.begin(server_round)
        chosen = self._enough(parts.choosing.choose(grid, server_round))
        in_sum = adds_up(grid) and not parts.aggregating.needs_single_updates
        if self._config.secure and not in_sum:
            raise ConfigError(
                'aggregation = "secure": this grid opens no sums; it serves run.sh, server.py and fl_dp.'
            )
        message = parts.aggregating.message(arrays)
        self._asked = self._unjudged = parts.asking.ask(chosen, server_round, message, in_sum=in_sum)
        return [asked.message for asked in self._asked]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Judge every client's round and aggregate the updates that stand; None if there are none."""
        parts = self._parts
        judged = parts.judging.judge(self._asked, replies)
        self._unjudged = []
        parts.reporting.verdicts = judged.verdicts
        arrays = parts.aggregating.aggregate(self._weights, judged)
        parts.reporting.lost = parts.aggregating.lost
        parts.reporting.opened = parts.aggregating.opened
        if parts.aggregating.lost:
            logger.warning("round %d is lost, and paid for: %s", server_round, parts.aggregating.lost)
        return arrays, None

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
        self._parts.reporting.announce()

    def outcome(self) -> tuple[RunStatus, str]:
        """How the run ended from which `start` has returned, and why, if not as asked."""
        return self._parts.reporting.outcome(nobody_left=self._parts.choosing.nobody_left)

    @property
    def best(self) -> tuple[int, ArrayRecord] | None:
        """The round of the best model so far, and the model; None where the last one is kept."""
        return self._keeping.best

    @property
    def averaged(self) -> ArrayRecord | None:
        """The average of the rounds' models, complete; None where the run keeps another one."""
        return self._averaging.model(self.result.arrays) if self._averaging.on else None

    @property
    def masked(self) -> bool | None:
        """Whether masks hid the parts of the secure sums; None before the first, and where there are none."""
        return self._parts.reporting.masked

    def budgets(self) -> dict[str, ClientBudget]:
        """Every client that was ever there, as it stands now."""
        return self._parts.reporting.budgets()

    def guarantee(self) -> BudgetReport | None:
        """What this run has cost so far, epsilon and delta; None before the first client."""
        return self._parts.reporting.guarantee()

    def planned(self) -> BudgetReport | None:
        """What this run costs if all planned rounds are run; None before the first client."""
        return self._parts.reporting.planned()

    def resolved(self) -> RunConfig:
        """The run's config with what "auto" became, as far as it is one value for all."""
        return resolved(self._config, self._parts.registration.clients.values(), self._parts.aggregating)

    @property
    def run(self) -> str:
        """The run's name in the clients' ledgers."""
        return self._run

    def federation(self) -> FederationBudget | None:
        """How all budgets stand; None before the first client."""
        return self._parts.reporting.federation()

    def _count_unjudged(self) -> None:
        """In the summary alone: the state on the disk stays as it is, and a resumed run asks again."""
        if self._unjudged:
            parts = self._parts
            parts.reporting.verdicts = count_unanswered(parts.registration, self._unjudged)
            self._unjudged = []

    def _receive(self, grid: Grid, sent: Collection[str]) -> list[Message]:
        """The round's replies, until it is closed. Where they come added up, the grid knows when it is."""
        if adds_up(grid):
            return receive(grid, sent, self._config.round_timeout)
        asked = {one.message.metadata.message_id: one for one in self._asked}
        needed = self._parts.aggregating.least_updates(len(asked))
        expected = self._parts.aggregating.expected
        closing = Closing(
            {key: asked[key] for key in sent},
            needed,
            self._config.grace,
            lambda reply, question: is_update(reply, question, expected),
            new={one.client.name for one in asked.values() if not one.client.asked} - self._ever_asked,
        )
        self._ever_asked |= {one.client.name for one in asked.values()}
        return receive(grid, sent, self._config.round_timeout, closing.is_closed)

    def _enough(self, chosen: Sequence[ClientRecord]) -> Sequence[ClientRecord]:
        """Those chosen; nobody where they are fewer than min-updates, whose round would be paid for in vain.

        The next draw may be larger if it is a Poisson draw. Else so few have budget left, and the run ends.
        """
        if not chosen or len(chosen) >= self._parts.aggregating.least_asked(len(chosen)):
            return chosen
        if self._config.sampling != POISSON:
            self._parts.choosing.nobody_left = True
        return []

    def _evaluate(self, server_round: int, evaluate_fn: Evaluate | None) -> MetricRecord:
        """Of the global model, or the average if that is kept, where it is due and can be; else empty."""
        every, last = self._config.evaluate_every, self._parts.reporting.last_round
        due = server_round == last or bool(every and server_round % every == 0)
        model = self._averaging.model(self.result.arrays)
        metrics = evaluate_fn(server_round, model) if evaluate_fn and due else None
        if metrics is None:
            return MetricRecord()
        self.result.evaluate_metrics_serverapp[server_round] = metrics
        return metrics

    def _keep(self, server_round: int, metrics: MetricRecord) -> None:
        """Keep the model that was measured, if it is the best; go back to that one if it has diverged."""
        diverged = self._keeping.look(server_round, self.result.arrays, metrics)
        if diverged and self.best:
            logger.warning("round %d is rolled back, and paid for: %s", server_round, diverged)
            self._parts.reporting.lost = self._parts.reporting.lost or diverged
            self.result.arrays = self.best[1]
            self._parts.aggregating.forget_steps()

    def _end_round(self, server_round: int, metrics: MetricRecord, seconds: float) -> None:
        report = self._parts.reporting.report(server_round, self._asked, metrics, seconds)
        self._over = server_round
        if self._resumed:  # others may have used the ledgers while this run stood still
            self._parts.registration.ask_all_again()
            self._resumed = False
        self._on_round(report)
