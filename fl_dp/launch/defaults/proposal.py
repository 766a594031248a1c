"""Proposes a run by the rule: settings with their reasons, and what it costs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fl_dp.accounting.budget import auto_delta
from fl_dp.accounting.training_plan import steps_of_epochs
from fl_dp.config.flat import AUTO, Scalar
from fl_dp.config.run import RunConfig
from fl_dp.config.values import key_of
from fl_dp.errors import AccountingError, ConfigError
from fl_dp.federation.server.optimizers import MOMENTUM as FEDAVGM_MOMENTUM
from fl_dp.federation.server.planning import takes_every_round
from fl_dp.launch.defaults import CHOSEN, rule
from fl_dp.launch.first_checks import check_first
from fl_dp.launch.forecast import Forecast, forecast_of, mean_rounds
from fl_dp.launch.preflight import check_budget, preflight
from fl_dp.launch.request import RunRequest
from fl_dp.records import KEEP, RESET, Entry
from fl_dp.reporting.wording import counted

# What the rule was made for, and measured with.
_ONLY: dict[str, Scalar] = {
    "privacy": "on",
    "optimizer": "sgd",
    "optimizer_settings": "",
    "server_optimizer": "fedavg",
    "aggregation": "mean",
    "local_algorithm": "fedavg",
    "learning_rate_schedule": "constant",
    "strategy": "",
    "clipping": "abadi",
}
_OF_SUMS = "fedavgm"  # the server's optimizer of secure sums


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


@dataclass(frozen=True, slots=True, repr=False)
class Proposal:
    """run: with reasons and a forecast. notes: for the user."""

    run: RuledRun
    notes: tuple[str, ...]

    @property
    def config(self) -> RunConfig:
        return self.run.config

    def __repr__(self) -> str:
        """The chosen settings, each with its reason."""
        return "\n".join(
            f"{key_of(name)} = {getattr(self.config, name)}: {why}" for name, why in self.run.reasons.items()
        )


def propose(
    request: RunRequest, *, most_rounds: int | None = None, most_passes: int | None = None
) -> Proposal:
    """Choose settings for the request's data, model, budget and clients; its own values are ignored.

    As in `check_run`, only the number and form of the records are used; nothing is started, paid or written.
    most_rounds: the most rounds allowed; most_passes: the most passes over each client's records in all of
    them. ConfigError, DataError or TaskError for what a launch refuses, and for settings that the rule was
    not made for.
    """
    _check_ruled(request.config, most_rounds, most_passes)
    check_first(request.config, clients=True)
    # the rule's own choices, so that nothing is noted about those of the config
    open_ = replace(request.config, expected_batch_size=1, physical_batch_size=1, rounds=rule.MOST_STEPS)
    checked = preflight(open_, clients=True, budget=False)
    config = checked.config
    epochs = min(rule.MOST_EPOCHS, float(most_passes or rule.MOST_EPOCHS))
    run = ruled(config, checked.sizes, rule.made_up(config), epochs, most_rounds)
    if not run.forecast.mechanisms:
        raise ConfigError(
            f"epsilon = {config.epsilon:g}: no client can take part: {run.forecast.clients[0].record.reason}"
        )
    return Proposal(run, (*request.notes, *checked.notes))


def _check_ruled(config: RunConfig, most_rounds: int | None, most_passes: int | None) -> None:
    for field, value in _ONLY.items():
        given = config.other_settings if field == "optimizer_settings" else getattr(config, field)
        of_sums = config.secure and (field == "aggregation" or given == _OF_SUMS)
        if given != value and not of_sums:
            raise ConfigError(
                f"{key_of(field)} = {given!r}: the rule works only for {value!r}; plan without it, and "
                "change it in the file that is written."
            )
    for name, most in (("rounds", most_rounds), ("passes", most_passes)):
        if most is not None and most < 1:
            raise ConfigError(f"{name} = {most}: expected an integer >= 1, the largest number of {name}.")


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
        optimizer_settings=f"momentum={rule.MOMENTUM}" if everyone and not config.secure else "",
        server_optimizer=_OF_SUMS if config.secure else "fedavg",
        optimizer_state=KEEP if everyone and not config.secure else RESET,
        max_grad_norm=1.0,
        noise_multiplier="auto",
    )
    check_budget(draft, max(sizes))
    foreseen = forecast_of(draft, sizes, None)  # what rate 1 and bound 1 cost, any cost
    usual = [_usual(one.record.mechanism, mean_rounds(draft)) for one in foreseen.clients]
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


def reasons_of(
    config: RunConfig,
    size: int,
    epochs: float,
    move: float,
    made_up: rule.MadeUp,
    parameters: int,
    most: int | None,
) -> dict[str, str]:
    """By fields of CHOSEN; `server_optimizer` only for secure sums, as the rule leaves it alone elsewhere.

    size: of the typical client; epochs, most: passes and most rounds, as in `ruled`.
    """
    steps = steps_of_epochs(size, min(config.expected_batch_size, size), epochs)
    few = ", as many as are allowed" if epochs < rule.MOST_EPOCHS else ""
    allowed = ", as many as are allowed" if most == config.rounds else ""
    in_a_weight = rule.noise_in_a_weight(parameters, images=made_up.images)
    why_move = (
        f"so that all noise together moves a weight by {in_a_weight:.2g}: rate * "
        "steps grows with epsilon, as in Panda et al. 2022 (arXiv 2212.04486)"
    )
    if move == rule.MOST_MOVE:
        why_move = "the largest value that was tried, as there is so little noise"
    why_bound = "a larger bound would add noise, and hardly any gradient is longer"
    if made_up.images:
        why_bound = "for images a tenth of that works best: only rate * bound matters then (arXiv 2206.07136)"
    elif config.max_grad_norm < 0.9 * made_up.norm:
        why_bound = "as large as noise allows: the larger it is, the better the probabilities"
    why_rounds = f"as many as a round has clients, and at least {rule.LEAST_PARTICIPATIONS} for each client"
    if config.fit_clients == config.clients:
        most_rounds = f"at most {rule.LEAST_PARTICIPATIONS} times the number of clients"
        why_rounds = f"one for each pass over the records, {most_rounds}"
    reasons = {
        "rounds": f"{why_rounds}{allowed}: then no single client's noise dominates the common model",
        "local_epochs": (
            f"{counted(round(epochs), 'pass', 'passes')} over a client's {size} {config.unit_name}s in all "
            f"rounds{few}: at a fixed epsilon, more passes help (De et al. 2022, arXiv 2204.13650)"
        ),
        "expected_batch_size": (
            f"{counted(steps, 'step')} for each client in total; larger batches hardly reduce the noise at "
            "this epsilon (the total noise of De et al. 2022)"
        ),
        "physical_batch_size": "by memory-mib, on each machine; it changes neither epsilon nor accuracy",
        "learning_rate": f"rate * bound / (1 - momentum) = {move:.2g}, {why_move}",
        "optimizer_settings": "none: a client that is chosen only occasionally has no momentum to continue",
        "optimizer_state": "without momentum there is none",
        "max_grad_norm": f"gradients of made-up records have length {made_up.norm:.2g}; {why_bound}",
        "noise_multiplier": "calibrated for each client, so that the rounds spend its epsilon",
    }
    if takes_every_round(config):
        reasons |= {
            "optimizer_settings": "steps are smoothed; only rate / (1 - momentum) matters",
            "optimizer_state": "momentum continues from round to round",
        }
    if config.secure:
        reasons |= {
            "rounds": f"a round of a secure sum is one step of all its members{allowed}",
            "local_epochs": f"{reasons['local_epochs']}. A round is one step, whatever this says",
            "optimizer_settings": "none: the server takes the steps",
            "server_optimizer": "momentum 0.9 at the server: steps are smoothed",
            "optimizer_state": "without momentum at the clients there is none",
        }
    return reasons
