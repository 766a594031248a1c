"""Proposes a run by the rule that fits the time limit: as many passes over the records as it allows."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fl_dp.accounting.budget import auto_delta
from fl_dp.accounting.training_plan import steps_of_epochs
from fl_dp.config.flat import AUTO, Scalar
from fl_dp.config.run import RunConfig
from fl_dp.config.secure import SECURE
from fl_dp.config.values import key_of
from fl_dp.errors import AccountingError, ConfigError
from fl_dp.federation.server.optimizers import MOMENTUM as FEDAVGM_MOMENTUM
from fl_dp.launch.check import MARGIN
from fl_dp.launch.defaults import CHOSEN, rule
from fl_dp.launch.defaults.reasons import reasons_of
from fl_dp.launch.files_first import check_clients_files
from fl_dp.launch.forecast import Forecast, forecast_of
from fl_dp.launch.measuring import timing_of
from fl_dp.launch.preflight import (
    check_budget,
    check_choices,
    check_names,
    check_server,
    split,
    with_absolute_paths,
)
from fl_dp.launch.request import Engine, RunRequest
from fl_dp.launch.spending import takes_every_round
from fl_dp.records import KEEP, RESET, Entry
from fl_dp.reporting.wording import duration

# What the rule was made for, and measured with.
_ONLY: dict[str, Scalar] = {
    "privacy": "on", "optimizer": "sgd", "optimizer_settings": "", "server_optimizer": "fedavg",
    "aggregation": "mean", "local_algorithm": "fedavg", "learning_rate_schedule": "constant",
    "strategy": "", "clipping": "abadi",
}  # fmt: skip
_OF_SUMS: dict[str, Scalar] = {"aggregation": SECURE, "server_optimizer": "fedavgm"}
START = 20.0  # seconds before the first round and after the last, at least
_TRIES = 6  # forecasts of the time, each with fewer passes, the last with one


@dataclass(frozen=True, slots=True)
class RuledRun:
    """A run with the settings of the rule. reasons: by the fields of CHOSEN. forecast: of the run."""

    reasons: dict[str, str]
    forecast: Forecast

    @property
    def config(self) -> RunConfig:
        return self.forecast.config

    def in_order(self) -> list[tuple[str, str]]:
        """Fields and reasons in the order of CHOSEN."""
        return [(field, self.reasons[field]) for field in CHOSEN if field in self.reasons]


@dataclass(frozen=True, slots=True)
class Proposal:
    """run: with reasons, and a forecast that includes time. seconds: time to allow, with start and margin;
    limit: the seconds that were allowed. notes: for the user.
    """

    run: RuledRun
    seconds: float
    limit: float | None
    notes: tuple[str, ...]

    @property
    def config(self) -> RunConfig:
        return self.run.config


def propose(
    request: RunRequest,
    *,
    engine: Engine | None = None,
    seconds: float | None = None,
    most_rounds: int | None = None,
    begin: Callable[[], object] = lambda: None,
) -> Proposal:
    """Choose settings for the request's data, model, budget and clients; its own values are ignored.

    As in `check_run`, only the number and form of the records are used; nothing is started, paid or written.
    engine: as in a launch. seconds: time limit of the run; None: no limit. most_rounds: the most rounds
    allowed. begin: called once everything is checked, before steps are measured, which may take minutes.
    ConfigError, DataError or TaskError for what a launch refuses, for settings that the rule was not made
    for, and for a limit too short for a single pass, with the seconds that one takes.
    """
    _check_ruled(request.config, seconds, most_rounds)
    check_clients_files(request.config)
    check_names(request.config)
    check_choices(request.config)
    config = with_absolute_paths(request.config)
    check_server(config)
    parts = split(replace(config, expected_batch_size=1, physical_batch_size=1, rounds=rule.MOST_STEPS))
    made_up = rule.made_up(config)
    limit = math.inf if seconds is None else seconds
    epochs, timing = rule.MOST_EPOCHS, None
    begin()
    for tried in range(1, _TRIES + 1):
        run = ruled(config, parts.sizes, made_up, epochs, most_rounds)
        timing = timing_of(run.forecast, simulated=engine is not None, known=timing, reading=parts.seconds)
        if timing is None:
            raise ConfigError(
                f"epsilon = {config.epsilon:g}: no client can take part: "
                f"{run.forecast.clients[0].record.reason}"
            )
        start = max(START, timing.around)
        needed = start + MARGIN * timing.rounds
        if needed <= limit:
            # a generous timeout: an update that arrives after it is paid for and lost
            longest = 600.0 * math.ceil(MARGIN * timing.rounds / run.config.rounds / 600)
            patient = replace(run.config, round_timeout=max(RunConfig().round_timeout, longest))
            whole = replace(run, forecast=replace(run.forecast, config=patient, timing=timing))
            return Proposal(whole, needed, seconds, (*request.notes, *parts.notes))
        if epochs == 1:
            break
        share = (limit - start) / (needed - start)
        epochs = fewer(epochs, share) if tried < _TRIES - 1 else 1.0
    raise _too_short(limit, needed, run.config)


def fewer(epochs: float, share: float) -> float:
    """A whole number of passes, at least one, that takes about `share` of the time of `epochs`, and fewer."""
    return max(1.0, float(min(int(epochs) - 1, int(0.95 * epochs * max(0.0, share)))))


def _too_short(seconds: float, needed: float, config: RunConfig) -> ConfigError:
    """needed: for one pass over the records, the least that was tried."""
    return ConfigError(
        f"the time limit, {duration(seconds)}, is too short: 1 pass over the records in "
        f"{config.rounds} rounds with {config.fit_clients} clients each takes {needed:.0f} s on this "
        "machine. Allow more time or fewer rounds, or choose a smaller model."
    )


def _check_ruled(config: RunConfig, seconds: float | None, most_rounds: int | None) -> None:
    for field, value in _ONLY.items():
        if (given := getattr(config, field)) != value and not (
            config.secure and given == _OF_SUMS.get(field)
        ):
            raise ConfigError(
                f"{key_of(field)} = {given!r}: the rule works only for {value!r}; plan without it, and "
                "change it in the file that is written."
            )
    if seconds is not None and not 0 < seconds < math.inf:
        raise ConfigError(f"minutes = {seconds / 60:g}: expected a finite number above 0, the time limit.")
    if seconds is not None and seconds <= START:
        raise ConfigError(
            f"the time limit, {duration(seconds)}, is too short: a run needs {START:g} s before its first "
            "round. Allow more than that."
        )
    if most_rounds is not None and most_rounds < 1:
        raise ConfigError(f"rounds = {most_rounds}: expected an integer >= 1, the largest number of rounds.")


def ruled(
    config: RunConfig, sizes: Sequence[int], made_up: rule.MadeUp, epochs: float, most_rounds: int | None
) -> RuledRun:
    """The run with `epochs` passes over a client's records. sizes: public, one for each client.
    most_rounds: as in `rule.rounds_of`.

    ConfigError for a budget that no noise meets.
    """
    size, everyone = typical(sizes), takes_every_round(config)
    delta = auto_delta(size) if config.delta == AUTO else float(config.delta)
    most_steps = float(rule.MOST_STEPS)
    if config.secure and most_rounds:  # a round is a step
        most_steps = min(most_steps, most_rounds * config.fit_clients / config.clients)
    try:
        batch = rule.batch_of(size, epochs, config.epsilon, delta, most_steps)
    except AccountingError as error:
        raise ConfigError(f"epsilon = {config.epsilon:g}: no noise can meet this budget. {error}") from None
    steps = steps_of_epochs(size, min(batch, size), epochs)
    clients = config.clients, config.fit_clients
    rounds = (
        rule.rounds_of_sums(*clients, steps, most_rounds)
        if config.secure
        else rule.rounds_of(*clients, epochs, steps, most_rounds)
    )
    local_epochs = rule.local_epochs_of(epochs, *clients, rounds)
    draft = replace(
        config,
        rounds=rounds,
        local_epochs=local_epochs,
        expected_batch_size=batch,
        physical_batch_size="auto",
        learning_rate=1.0,
        momentum=rule.MOMENTUM if everyone and not config.secure else 0.0,
        server_optimizer=str(_OF_SUMS["server_optimizer"]) if config.secure else "fedavg",
        optimizer_state=KEEP if everyone and not config.secure else RESET,
        max_grad_norm=1.0,
        noise_multiplier="auto",
        participations=0 if everyone else "auto",
    )
    check_budget(draft, max(sizes))
    foreseen = forecast_of(draft, sizes, None)  # what rate 1 and bound 1 cost, any cost
    usual = [_usual(one.record.mechanism, foreseen.usual_rounds) for one in foreseen.clients]
    all_steps = rounds * (1 if config.secure else steps_of_epochs(size, min(batch, size), draft.local_epochs))
    move = rule.move_of(usual, sizes, foreseen.parameters, all_steps, images=made_up.images)
    bound = rule.bound_of(made_up, usual, sizes)
    momentum = FEDAVGM_MOMENTUM if config.secure else draft.momentum
    rate = rule.rate_of(move, bound, momentum)
    whole = replace(draft, max_grad_norm=bound, learning_rate=rate)
    reasons = reasons_of(whole, size, epochs, move, made_up, foreseen.parameters, most_rounds)
    return RuledRun(reasons, replace(foreseen, config=whole))


def typical(sizes: Sequence[int]) -> int:
    """Size of the client that holds the median record: half of all records are at clients no larger."""
    seen = 0
    for size in sorted(sizes):
        seen += size
        if 2 * seen >= sum(sizes):
            return size
    raise ValueError("a run has clients")


def _usual(mechanism: Entry | None, rounds: float) -> Entry | None:
    """A client's expected part in the rounds; chance may draw it more or less often."""
    return mechanism and mechanism.taking(max(1, round(mechanism.steps * rounds)))
