"""The settings that the rule chooses for a run, with the reason of each, and the run's forecast."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from fl_dp.accounting.budget import auto_delta
from fl_dp.accounting.training_plan import steps_of_epochs
from fl_dp.config.flat import AUTO
from fl_dp.config.run import RunConfig
from fl_dp.errors import AccountingError, ConfigError
from fl_dp.federation.wire.round_arrays import shared_specs
from fl_dp.launch.check import forecast_run
from fl_dp.launch.defaults import rule
from fl_dp.launch.forecast import Forecast
from fl_dp.launch.preflight import check_budget
from fl_dp.launch.spending import mean_rounds, takes_every_round
from fl_dp.records import KEEP, RESET, Entry
from fl_dp.reporting.wording import counted
from fl_dp.tasks.load import new_model, task_of


@dataclass(frozen=True, slots=True)
class RuledRun:
    """config: whole, with what the rule chooses. reasons: why, by the fields of CHOSEN. forecast: of it."""

    config: RunConfig
    reasons: dict[str, str]
    forecast: Forecast


def ruled(
    config: RunConfig, sizes: Sequence[int], norms: Sequence[float], epochs: float, most_rounds: int | None
) -> RuledRun:
    """The run with `epochs` passes over a client's records. sizes: public, of each client; norms: of the
    gradients of made-up records at its first weights. most_rounds: as of `rule.rounds_of`.

    ConfigError for a budget that no noise meets.
    """
    size = typical(sizes)
    draft = _draft(config, size, rule.bound_of(norms), epochs, most_rounds)
    check_budget(draft, max(sizes))
    foreseen = forecast_run(draft, tuple(sizes), None)  # what a rate of 1 costs, any rate costs
    steps = steps_of_epochs(size, min(draft.expected_batch_size, size), draft.local_epochs)
    parameters = parameters_of(config)
    entries = [_usual(one.record.mechanism, draft) for one in foreseen.clients]
    move = rule.move_of(entries, sizes, parameters, steps * draft.rounds)
    rate = rule.rate_of(move, draft.max_grad_norm, draft.momentum)
    whole = dataclasses.replace(draft, learning_rate=rate)
    reasons = _reasons(whole, size, min(norms), epochs, most_rounds, move, parameters)
    resolved = dataclasses.replace(foreseen.resolved, learning_rate=rate)
    return RuledRun(whole, reasons, dataclasses.replace(foreseen, config=whole, resolved=resolved))


def typical(sizes: Sequence[int]) -> int:
    """Records of the client that has the median record: half of all records are at clients no larger."""
    seen = 0
    for size in sorted(sizes):
        seen += size
        if 2 * seen >= sum(sizes):
            return size
    raise ValueError("a run has clients")


def parameters_of(config: RunConfig) -> int:
    """Numbers that are trained in common."""
    shared = shared_specs(new_model(task_of(config)), config.personal)
    return sum(math.prod(one.shape) for one in shared.values())


def _draft(config: RunConfig, size: int, bound: float, epochs: float, most_rounds: int | None) -> RunConfig:
    """All but the learning rate, which follows from the noise that these settings take."""
    clients, taking = config.clients, config.fit_clients
    delta = auto_delta(size) if config.delta == AUTO else float(config.delta)
    try:
        batch = rule.batch_of(size, epochs, config.epsilon, delta)
    except AccountingError as error:
        raise ConfigError(f"epsilon = {config.epsilon:g}: no noise can meet this budget. {error}") from None
    steps = steps_of_epochs(size, min(batch, size), epochs)
    rounds = rule.rounds_of(clients, taking, steps, most_rounds)
    everyone = takes_every_round(config)
    return dataclasses.replace(
        config,
        rounds=rounds,
        local_epochs=rule.local_epochs_of(epochs, clients, taking, rounds),
        expected_batch_size=batch,
        physical_batch_size="auto",
        learning_rate=1.0,
        momentum=rule.MOMENTUM if everyone else 0.0,
        optimizer_state=KEEP if everyone else RESET,
        max_grad_norm=bound,
        noise_multiplier="auto",
        participations=0 if everyone else "auto",
    )


def _usual(mechanism: Entry | None, config: RunConfig) -> Entry | None:
    """Of a client's part in the mean of the rounds: chance may draw it more often or less."""
    if mechanism is None:
        return None
    return Entry(
        mechanism.sample_rate,
        mechanism.noise_multiplier,
        max(1, round(mechanism.steps * mean_rounds(config))),
    )


def _reasons(
    config: RunConfig,
    size: int,
    least: float,
    epochs: float,
    most_rounds: int | None,
    move: float,
    parameters: int,
) -> dict[str, str]:
    steps = steps_of_epochs(size, min(config.expected_batch_size, size), epochs)
    everyone = takes_every_round(config)
    in_time = ", as many as the time allows" if epochs < rule.MOST_EPOCHS else ""
    allowed = ", as many as were allowed" if most_rounds == config.rounds else ""
    return {
        "rounds": (
            f"as many as clients in a round, and {rule.LEAST_PARTICIPATIONS} of each client{allowed}: then "
            "no client's own noise outweighs that of the common model"
        ),
        "local_epochs": (
            f"{counted(round(epochs), 'pass', 'passes')} over a client's {size} {config.unit_name}s in all "
            f"rounds{in_time}: at a fixed epsilon more passes help (De et al. 2022, arXiv 2204.13650)"
        ),
        "expected_batch_size": (
            f"{counted(steps, 'step')} of a client in all; larger batches win next to no noise at this "
            "epsilon (the total noise of De et al. 2022)"
        ),
        "physical_batch_size": "by memory-mib, on each machine; it changes no epsilon and no accuracy",
        "learning_rate": (f"rate * bound / (1 - momentum) = {move:.2g}, {_of_move(move, parameters)}"),
        "momentum": "steps are smoothed; rate / (1 - momentum) is what counts"
        if everyone
        else "none: who is drawn now and then has none to go on from",
        "optimizer_state": (
            "momentum goes on from round to round" if everyone else "there is none without momentum"
        ),
        "max_grad_norm": (
            f"a tenth of what gradients of made-up records have ({least:.2g} at least): steps are means of "
            "directions, and rate * bound counts (automatic clipping, Bu et al. 2022, arXiv 2206.07136)"
        ),
        "noise_multiplier": "calibrated at each client, so that the rounds spend its epsilon",
        "participations": (
            "every client takes part in every round"
            if everyone
            else "noise for the rounds that nine of ten clients are drawn for at most"
        ),
    }


def _of_move(move: float, parameters: int) -> str:
    if move == rule.MOST_MOVE:
        return "the most that was tried; there is so little noise"
    return (
        f"so that all noise moves a weight by {rule.noise_in_a_weight(parameters):.2g}: rate * steps grow "
        "with epsilon, as by Panda et al. 2022 (arXiv 2212.04486)"
    )
