"""What a client refuses, whatever the server asks. Its own settings alone set the limits."""

import math
from collections.abc import Collection

from fl_dp.choices import LOCAL_ALGORITHMS
from fl_dp.config.client import ClientConfig
from fl_dp.errors import ConfigError, DeclinedError
from fl_dp.models.names import common_name
from fl_dp.records import (
    ARITHMETICS,
    CLIPPINGS,
    LEAST_NOISE,
    MOST_BATCH,
    MOST_MEMBERS,
    MOST_NOISE,
    MOST_PULL,
    NUMERICS,
    OPTIMIZER_STATES,
    PROVEN,
    RoundPlan,
)
from fl_dp.reporting.wording import counted
from fl_dp.training.optimizers import settings_of

MAX_STEPS = 1_000_000  # of one round; more are a mistake, or an attempt to keep the client busy
MAX_RUN_NAME = 64  # characters; it is written into the ledger

# Within these, clipped gradients and noise are ordinary float32 numbers. Near 1e-45 noise may round to zero
# where a clipped gradient does not. Near 1e38 a sum overflows, which noise cannot hide.
LEAST_GRAD_NORM, MOST_GRAD_NORM = 1e-12, 1e12
_OF_TASK = (
    ". The usual cause is that the server's data have another form: give both sides the same schema, task "
    "file and features"
)


def check_run_name(name: str) -> None:
    """DeclinedError unless a ledger and a console can hold the name."""
    _require(bool(name), "comes without the name of its run")
    _require(
        len(name) <= MAX_RUN_NAME and name.isprintable(),
        f"names a run in more than {MAX_RUN_NAME} printable characters",
    )


def check_plan(plan: RoundPlan, config: ClientConfig, public_size: int, task: str = "") -> None:
    """DeclinedError, with the reason, unless the client accepts the plan.

    task: the identity of the client's own task.

    The ledger, and not this function, checks the budget, and that the mechanism stays the same, when the
    steps are reserved.
    """
    check_run_name(plan.run)
    if plan.origin:
        check_run_name(plan.origin)
    _require(plan.server_round >= 1, f"asks for round {plan.server_round}, rounds start at 1")
    _require(
        1 <= plan.steps <= MAX_STEPS, f"asks for {counted(plan.steps, 'step')}, expected 1 to {MAX_STEPS}"
    )
    _require(
        1 <= plan.expected_batch_size <= public_size,
        f"asks for an expected batch size of {plan.expected_batch_size}, "
        f"this client declares {public_size} {config.unit_name}s",
    )
    _require(
        plan.expected_batch_size <= MOST_BATCH,
        f"asks for an expected batch size of {plan.expected_batch_size}, expected at most {MOST_BATCH}",
    )
    _require(
        0 < plan.learning_rate < math.inf,
        f"asks for learning rate {plan.learning_rate:g}, expected a finite number > 0",
    )
    _check_same_results(plan, config, task)
    _require(0 <= plan.momentum < 1, f"asks for momentum {plan.momentum:g}, expected a number in [0, 1)")
    _check_way(plan)
    _require(plan.shares >= 0, f"asks for a share in {plan.shares}, expected 0 or more")
    if plan.secure:
        _check_secure(plan, config)
    if plan.private:
        _check_protection(plan, config)
    else:
        _check_unprotected(plan, config)


def _check_same_results(plan: RoundPlan, config: ClientConfig, task: str) -> None:
    """The round must compute the same at every site, and the same again if it is repeated here."""
    for what, asked, own in (
        ("model", plan.model, common_name(config.model)),
        ("loss", plan.loss, config.loss),
        ("task", plan.task, task),
        ("training of", plan.trained, config.trained),
        ("unit", plan.unit, config.unit_of_all),
        ("personal", plan.personal, config.personal),
        ("training on", plan.seen, config.seen),
        ("class-weights", _closed(plan.class_weights), _closed(config.class_weights)),
    ):
        with_it = _OF_TASK if what == "task" else ""
        _require(
            asked == own,
            f"asks for {what} {_short(asked)}, this client's own settings have {_short(own)}{with_it}",
        )
    _require(
        plan.numerics == NUMERICS,
        f"asks for numerics {plan.numerics}, this client's fl_dp has {NUMERICS}: the same round would give "
        "a different update here. Install one version of fl_dp at all sites",
    )


def _check_way(plan: RoundPlan) -> None:
    """Check optimizer and local algorithm against closed lists. They see only noised gradients and
    received weights.
    """
    _require_one_of("optimizer state", plan.optimizer_state, OPTIMIZER_STATES)
    _require_one_of("local algorithm", plan.local_algorithm, LOCAL_ALGORITHMS.built_in())
    _require_in("pull", plan.pull, 0.0, MOST_PULL)
    if plan.optimizer == "sgd" and not plan.optimizer_settings:
        return  # our own
    try:
        settings_of(plan.optimizer, plan.optimizer_settings, plan.momentum)
    except ConfigError as error:
        raise DeclinedError(f"the round asks for something that cannot be done: {error}") from error


def _closed(text: str) -> str:
    return text.replace(" ", "")


def _short(name: str) -> str:
    return repr(name[:MAX_RUN_NAME]) if name else "none of its own"


def _check_protection(plan: RoundPlan, config: ClientConfig) -> None:
    _require_one_of("arithmetic", plan.arithmetic, ARITHMETICS)
    _require(
        plan.arithmetic == PROVEN or config.arithmetic != PROVEN,
        f"asks for arithmetic {plan.arithmetic!r}, this client's operator accepts only {PROVEN!r}",
    )
    _require(
        plan.arithmetic != PROVEN or not config.features,
        f"asks for arithmetic {PROVEN!r}, but this client computes the features of many records at a time",
    )
    noise = plan.noise_multiplier
    _require_in("noise multiplier", noise, LEAST_NOISE, MOST_NOISE)
    _require(
        noise >= config.min_noise_multiplier,
        f"asks for noise multiplier {noise:g}, this client's least is {config.min_noise_multiplier:g}",
    )
    _require_one_of("clipping", plan.clipping, CLIPPINGS)
    _require_in("clipping bound", plan.max_grad_norm, LEAST_GRAD_NORM, MOST_GRAD_NORM)
    _require(
        plan.max_grad_norm <= config.max_grad_norm,
        f"asks for clipping bound {plan.max_grad_norm:g}, this client's largest is {config.max_grad_norm:g}",
    )


def _check_unprotected(plan: RoundPlan, config: ClientConfig) -> None:
    _require(
        config.allow_unprotected,
        "asks for training without protection, which this client's operator has not allowed "
        "(allow-unprotected in its own settings)",
    )
    _require(
        plan.noise_multiplier == 0,
        f"asks for training without protection and for noise multiplier {plan.noise_multiplier:g}",
    )


def _check_secure(plan: RoundPlan, config: ClientConfig) -> None:
    """Only one step is allowed. By later steps a member could undo the noise of its first step, on which the
    others rely (docs/secure-aggregation.md).
    """
    _require(plan.private, "asks for a secure sum without protection")
    _require(plan.steps == 1, f"asks for {counted(plan.steps, 'step')} into a secure sum, which takes one")
    for what, asked, usual in (
        ("optimizer", plan.optimizer, "sgd"),
        ("optimizer settings", plan.optimizer_settings, ""),
        ("momentum", plan.momentum, 0.0),
        ("local algorithm", plan.local_algorithm, "fedavg"),
        ("personal", plan.personal, ""),
    ):
        _require(asked == usual, f"asks for {what} {asked!r:.60} in a secure sum, expected {usual!r}")
    _require(
        config.allow_secure_sum > 0,
        "asks for a step into a secure sum, with only a share of its noise, which this client's operator has "
        "not allowed (allow-secure-sum in its own settings)",
    )
    _require(
        1 <= plan.shares <= MOST_MEMBERS, f"asks for a share in {plan.shares}, expected 1 to {MOST_MEMBERS}"
    )
    alone = plan.own_multiplier
    _require(
        alone >= config.min_share_multiplier,
        f"asks for a share of noise of multiplier {alone:g}, this client's least is "
        f"{config.min_share_multiplier:g}",
    )
    _require(
        alone >= LEAST_NOISE,
        f"asks for a share of noise of multiplier {alone:g}, expected {LEAST_NOISE:g} at least",
    )


def _require_in(what: str, asked: float, least: float, most: float) -> None:
    _require(least <= asked <= most, f"asks for {what} {asked:g}, expected {least:g} to {most:g}")


def _require_one_of(what: str, asked: str, known: Collection[str]) -> None:
    _require(asked in known, f"asks for {what} {_short(asked)}, expected {' or '.join(known)}")


def _require(condition: bool, reason: str) -> None:
    if not condition:
        raise DeclinedError(f"the round {reason}.")
