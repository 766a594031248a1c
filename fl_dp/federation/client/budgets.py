"""A client's budgets and public numbers, from its settings and its ledger."""

from collections.abc import Iterable

from fl_dp.accounting.budget import Budget, auto_delta
from fl_dp.accounting.one_mechanism import OneMechanismBudget
from fl_dp.config.client import ClientConfig
from fl_dp.config.flat import AUTO
from fl_dp.records import ClientProfile, Entry


def budget_of(config: ClientConfig, public_size: int) -> Budget:
    kind = Budget if config.vary_mechanism else OneMechanismBudget
    return _budget(kind, config.epsilon, config, public_size)


def evaluation_budget_of(config: ClientConfig, public_size: int) -> Budget:
    return _budget(OneMechanismBudget, config.evaluate_epsilon, config, public_size)


def _budget(kind: type[Budget], epsilon: float, config: ClientConfig, public_size: int) -> Budget:
    delta = auto_delta(public_size) if config.delta == AUTO else float(config.delta)
    return kind(epsilon, delta, config.accountant, config.epsilon_alone or None)


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
