"""A client's budgets and public numbers, from its settings and its ledger.

One mechanism for all of a data set's rounds, so that its epsilon holds whatever a server asks next.

A server sees the results of the first rounds, and may choose its next plans by them. If it chooses weights,
clipping bound or learning rate that way, epsilon stays the same (Zhu, Dong, Wang 2022, arXiv 2106.08567,
theorem 10). If it chooses sample rate or noise that way, epsilon may be larger than what an accountant
reports, because the accountant adds up the steps as if all had been planned beforehand. Adding up is sound
if the compositions of all mechanisms are totally ordered (arXiv 2602.15815). Steps of one mechanism are,
because more steps cost more. docs/privacy.md has the argument.
"""

from collections.abc import Iterable

from fl_dp.accounting.budget import Budget, auto_delta
from fl_dp.config.client import ClientConfig
from fl_dp.config.flat import AUTO
from fl_dp.errors import DeclinedError
from fl_dp.records import ClientProfile, Entry


class OneMechanismBudget(Budget):
    """A budget that pays only for steps with the sampling and noise multiplier of its first step.

    The ledger calls it inside its transaction, so that two concurrent rounds cannot both be the first.
    """

    __slots__ = ()

    def steps_that_fit(self, planned: Entry, spent: Iterable[Entry]) -> int:
        """As in `Budget`; DeclinedError, with the reason, for a mechanism that differs from the first."""
        spent = tuple(spent)
        if reason := conflict(planned, spent):
            raise DeclinedError(reason)
        return super().steps_that_fit(planned, spent)


def conflict(planned: Entry, spent: Iterable[Entry]) -> str:
    """Why this is not the mechanism of the steps before; empty if it is, or if there are none.

    Shares are not compared: under the assumption of a secure sum they change nothing.
    """
    asked = without_shares(planned)
    held = sorted(set(map(without_shares, spent)))
    if held in ([], [asked]):
        return ""
    mechanisms = " and ".join(_words(*mechanism) for mechanism in held)
    return (
        f"The round asks for {_words(*asked)}; this client's data were trained with "
        f"{mechanisms}, and its epsilon holds for one mechanism. Ask for the first, or have its operator set "
        "vary-mechanism (docs/privacy.md)."
    )


def without_shares(entry: Entry) -> tuple[float, float]:
    """The mechanism as those see it who see no more than sums."""
    return entry.sample_rate, entry.noise_multiplier


def _words(sample_rate: float, noise_multiplier: float) -> str:
    return f"sample rate {sample_rate:.6g} with noise multiplier {noise_multiplier:.6g}"


def budget_of(config: ClientConfig, public_size: int) -> Budget:
    """The budget that limits the client's rounds."""
    kind = Budget if config.vary_mechanism else OneMechanismBudget
    return _budget(kind, config.epsilon, config, public_size)


def evaluation_budget_of(config: ClientConfig, public_size: int) -> Budget:
    """The budget that limits the evaluations on the client's test records."""
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
