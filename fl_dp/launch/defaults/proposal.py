"""A run by the rule that fits the time: as many passes over the records as the limit allows."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from fl_dp.config.flat import Scalar
from fl_dp.config.run import RunConfig
from fl_dp.config.values import key_of
from fl_dp.errors import ConfigError
from fl_dp.launch.check import MARGIN, time_run
from fl_dp.launch.defaults.bound import made_up_norms
from fl_dp.launch.defaults.rule import MOST_EPOCHS
from fl_dp.launch.defaults.settings import RuledRun, ruled
from fl_dp.launch.files_first import check_clients_files
from fl_dp.launch.measuring import Timing
from fl_dp.launch.preflight import check_choices, check_names, check_server, split, with_absolute_paths
from fl_dp.launch.request import Engine, RunRequest
from fl_dp.reporting.wording import duration

# What the rule was made for, and measured with.
_ONLY: tuple[tuple[str, Scalar], ...] = (
    ("privacy", "on"), ("optimizer", "sgd"), ("optimizer_settings", ""), ("server_optimizer", "fedavg"),
    ("aggregation", "mean"), ("local_algorithm", "fedavg"), ("learning_rate_schedule", "constant"),
    ("strategy", ""), ("adaptive_clipping", ""),
)  # fmt: skip
_CHANGE_AFTERWARDS = "plan without it, and change the file that is written."
_INSTEAD = {  # of a value that is no mistake, but another way to train
    "aggregation": "a round of a secure sum is one step, so that none of its rounds, batches and rates is "
    "meant for that; docs/secure-aggregation.md says what served."
}
START = 20.0  # seconds until the first round, which no forecast counts
_TRIES = 6  # forecasts of the time, each with fewer passes, the last with one


@dataclass(frozen=True, slots=True)
class Proposal:
    """run: with its reasons and forecast. timing: of its steps. seconds: to allow for it, with start and
    margin; limit: that were allowed. notes: for the user.
    """

    run: RuledRun
    timing: Timing
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
    """Settings for the request's data, model, budget and clients, whatever it says of those that are chosen.

    Of records their number and form alone are used, as by `check_run`; nothing is started, paid or written.
    engine: as of a launch. seconds: that the run may take; None: no limit. most_rounds: that are allowed.
    begin: is called when all is checked and steps are measured, which may take minutes.
    ConfigError, DataError or TaskError for what a launch refuses, for settings that the rule was not made
    for, and for a limit that not one pass keeps, with the seconds that it takes.
    """
    _check_ruled(request.config, seconds, most_rounds)
    config = _checked(request.config)
    parts, norms = split(replace(config, expected_batch_size=1, physical_batch_size=1)), made_up_norms(config)
    limit = math.inf if seconds is None else seconds
    epochs, timing = MOST_EPOCHS, None
    begin()
    for tried in range(1, _TRIES + 1):
        run = ruled(config, parts.sizes, norms, epochs, most_rounds)
        timing = time_run(run.forecast, simulated=engine is not None, known=timing)
        if timing is None:
            raise ConfigError(
                f"epsilon = {config.epsilon:g}: no client can take part: "
                f"{run.forecast.clients[0].record.reason}"
            )
        needed = START + MARGIN * timing.rounds
        if needed <= limit:
            return Proposal(_patient(run, timing), timing, needed, seconds, (*request.notes, *parts.notes))
        if epochs == 1:
            break
        share = (limit - START) / (needed - START)
        epochs = fewer(epochs, share) if tried < _TRIES - 1 else 1.0
    raise _too_short(limit, needed, run.config)


def _patient(run: RuledRun, timing: Timing) -> RuledRun:
    """With a round-timeout in which a round ends: what a client sends later is paid for and lost."""
    seconds = MARGIN * timing.rounds / run.config.rounds
    longest = max(RunConfig().round_timeout, 600.0 * math.ceil(seconds / 600))
    reason = (
        f"{MARGIN:g} times what a round is to take, an hour at least: what a client sends later is paid for "
        "and lost"
    )
    config = replace(run.config, round_timeout=longest)
    resolved = replace(run.forecast.resolved, round_timeout=longest)
    forecast = replace(run.forecast, config=config, resolved=resolved)
    return RuledRun(config, {**run.reasons, "round_timeout": reason}, forecast)


def fewer(epochs: float, share: float) -> float:
    """Passes, whole and at least one, that take about `share` of the time of `epochs`; at least one fewer."""
    return max(1.0, float(min(int(epochs) - 1, int(0.95 * epochs * max(0.0, share)))))


def _too_short(seconds: float, needed: float, config: RunConfig) -> ConfigError:
    epochs = config.local_epochs * config.rounds * config.fit_clients / config.clients
    passes, takes = ("pass", "takes") if epochs == 1 else ("passes", "take")
    return ConfigError(
        f"the time limit, {duration(seconds)}, is too short: {epochs:.3g} {passes} over the records in "
        f"{config.rounds} rounds with {config.fit_clients} clients each {takes} {needed:.0f} s on this "
        "machine. Allow that, or fewer rounds, or take a smaller model."
    )


def _check_ruled(config: RunConfig, seconds: float | None, most_rounds: int | None) -> None:
    for field, value in _ONLY:
        if getattr(config, field) != value:
            given, instead = getattr(config, field), _INSTEAD.get(field, _CHANGE_AFTERWARDS)
            raise ConfigError(
                f"{key_of(field)} = {given!r}: the rule was made for {value!r} alone; {instead}"
            )
    if seconds is not None and not 0 < seconds < float("inf"):
        raise ConfigError(f"minutes = {seconds / 60:g}: expected a finite number above 0, the time limit.")
    if seconds is not None and seconds <= START:
        raise ConfigError(
            f"the time limit, {duration(seconds)}, is too short: {START:g} s go by before a run's first "
            "round. Allow more than that."
        )
    if most_rounds is not None and most_rounds < 1:
        raise ConfigError(f"rounds = {most_rounds}: expected an integer >= 1, the most that are allowed.")


def _checked(config: RunConfig) -> RunConfig:
    """With absolute paths; what a launch refuses raises."""
    check_clients_files(config)
    check_names(config)
    check_choices(config)
    whole = with_absolute_paths(config)
    check_server(whole)
    return whole
