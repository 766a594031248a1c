"""The head of an attempt, as an honest server proposes it to the members of a round's sum."""

import secrets
from collections.abc import Collection, Mapping

from fl_dp.federation.secure_sum.terms import ATTEMPT_DIGITS, MODULUS, Head
from fl_dp.federation.secure_sum.vector import SAMPLER, grid_of
from fl_dp.federation.secure_sum.wire import common_plan
from fl_dp.federation.wire.arrays import NDArray
from fl_dp.records import RoundPlan
from fl_dp.weights_digest import weights_digest


def proposed_head(
    plans: Collection[RoundPlan],
    weights: Mapping[str, NDArray],
    *,
    numbers: int,
    members: int,
    dropouts: int,
    colluders: int,
) -> Head:
    """The head of a new attempt. plans: the members', equal but for their batches; weights: sent to all.

    numbers: length of a member's vector. ConfigError if no grid is fine enough for the noise.
    """
    plan = next(iter(plans))
    grid = grid_of(plan.max_grad_norm, plan.noise_multiplier, plan.shares, numbers)
    return Head(
        run=plan.run,
        server_round=plan.server_round,
        attempt=secrets.token_hex(ATTEMPT_DIGITS // 2),
        plan=common_plan(plan),
        weights=weights_digest(weights),
        max_grad_norm=plan.max_grad_norm,
        sensitivity=grid.sensitivity,
        noise_multiplier=plan.noise_multiplier,
        spacing=grid.spacing,
        levels=grid.levels,
        numbers=numbers,
        share_deviation=grid.share_deviation,
        modulus=MODULUS,
        sampler=SAMPLER,
        clients=members,
        dropouts=dropouts,
        colluders=colluders,
        threshold=members - dropouts,  # the largest: masks hold against the most colluders
    )
