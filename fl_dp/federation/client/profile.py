"""A client's budget and public numbers, from its settings and its ledger."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fl_dp.config.client import ClientConfig
from fl_dp.config.flat import AUTO
from fl_dp.records import ClientProfile, Entry

if TYPE_CHECKING:
    from fl_dp.accounting.budget import Budget


def budget_of(config: ClientConfig, public_size: int) -> "Budget":
    """The budget that limits the client's rounds."""
    from fl_dp.accounting.budget import Budget, auto_delta
    from fl_dp.federation.client.one_mechanism import OneMechanismBudget

    delta = auto_delta(public_size) if config.delta == AUTO else float(config.delta)
    kind = Budget if config.vary_mechanism else OneMechanismBudget
    return kind(config.epsilon, delta, config.accountant, config.epsilon_alone or None)


def evaluation_budget_of(config: ClientConfig, public_size: int) -> "Budget":
    """The budget that limits the evaluations on the client's test records."""
    from fl_dp.accounting.budget import auto_delta
    from fl_dp.federation.client.one_mechanism import OneMechanismBudget

    delta = auto_delta(public_size) if config.delta == AUTO else float(config.delta)
    return OneMechanismBudget(config.evaluate_epsilon, delta, config.accountant, config.epsilon_alone or None)


def profile_of(
    config: ClientConfig, public_size: int, spent: Iterable[Entry], arithmetic: str, retired: int
) -> ClientProfile:
    """The client's public numbers. spent, arithmetic, retired: from its ledger."""
    budget = budget_of(config, public_size)
    return ClientProfile(
        client=config.client,
        public_size=public_size,
        epsilon=budget.epsilon,
        delta=budget.delta,
        spent=tuple(spent),
        accountant=budget.accountant,
        min_noise_multiplier=config.min_noise_multiplier,
        vary_mechanism=config.vary_mechanism,
        retired=retired,
        allow_unprotected=config.allow_unprotected,
        arithmetic=arithmetic,
        allow_secure_sum=config.allow_secure_sum > 0,
        epsilon_alone=config.epsilon_alone,
        evaluate_epsilon=config.evaluate_epsilon if config.test else 0.0,
    )
