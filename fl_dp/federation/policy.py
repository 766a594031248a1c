"""What a client will not do, whatever the server asks. The limits come from its own settings alone."""

import math

from fl_dp.config import ClientConfig
from fl_dp.errors import DeclinedError
from fl_dp.records import RoundPlan

MAX_STEPS = 1_000_000  # of one round: more is a mistake, or an attempt to keep the client busy


def check_plan(plan: RoundPlan, config: ClientConfig, public_size: int) -> None:
    """Return if the client accepts the plan; raise DeclinedError, with the reason, if it does not.

    The budget is not checked here: the ledger does that when the steps are reserved.
    """
    _require(bool(plan.run), "comes without the name of its run")
    _require(plan.server_round >= 1, f"asks for round {plan.server_round}, rounds start at 1")
    _require(1 <= plan.steps <= MAX_STEPS, f"asks for {plan.steps} steps, expected 1 to {MAX_STEPS}")
    _require(
        1 <= plan.expected_batch_size <= public_size,
        f"asks for an expected batch size of {plan.expected_batch_size}, "
        f"this client declares {public_size} records",
    )
    _require(
        0 < plan.learning_rate < math.inf,
        f"asks for learning rate {plan.learning_rate:g}, expected a finite number > 0",
    )
    _require(0 <= plan.momentum < 1, f"asks for momentum {plan.momentum:g}, expected a number in [0, 1)")
    _require(
        0 < plan.noise_multiplier < math.inf,
        f"asks for noise multiplier {plan.noise_multiplier:g}, expected a finite number > 0",
    )
    _require(
        plan.noise_multiplier >= config.min_noise_multiplier,
        f"asks for noise multiplier {plan.noise_multiplier:g}, "
        f"this client's least is {config.min_noise_multiplier:g}",
    )
    _require(
        0 < plan.max_grad_norm < math.inf,
        f"asks for clipping bound {plan.max_grad_norm:g}, expected a finite number > 0",
    )
    _require(
        plan.max_grad_norm <= config.max_grad_norm,
        f"asks for clipping bound {plan.max_grad_norm:g}, this client's largest is {config.max_grad_norm:g}",
    )


def _require(condition: bool, reason: str) -> None:
    if not condition:
        raise DeclinedError(f"the round {reason}.")
