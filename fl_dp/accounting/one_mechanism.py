"""One mechanism for all of a data set's rounds, so that its epsilon holds whatever is asked next.

A server, or a loop, sees the results of earlier rounds and may choose later ones by them. If weights,
clipping bound or learning rate are chosen that way, epsilon stays the same (Zhu, Dong, Wang 2022, arXiv
2106.08567, theorem 10). If sample rate or noise are, epsilon may be larger than an accountant reports,
because it adds up the steps as if all had been planned beforehand. Adding up is sound if the compositions of
all mechanisms are totally ordered (arXiv 2602.15815). Steps of one mechanism are, because more steps cost
more. docs/privacy.md has the argument.
"""

from collections.abc import Iterable

from fl_dp.accounting.budget import Budget
from fl_dp.errors import DeclinedError
from fl_dp.records import Entry


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
        f"The round asks for {_words(*asked)}; this account's data were trained with "
        f"{mechanisms}, and its epsilon holds for one mechanism. Ask for the first (in a loop "
        f"noise_multiplier={held[0][1]:.17g}), or have its operator set vary-mechanism (in a loop: "
        "vary_mechanism=True; docs/privacy.md)."
    )


def without_shares(entry: Entry) -> tuple[float, float]:
    """The mechanism that an observer of sums alone sees."""
    return entry.sample_rate, entry.noise_multiplier


def _words(sample_rate: float, noise_multiplier: float) -> str:
    return f"sample rate {sample_rate:.6g} with noise multiplier {noise_multiplier:.6g}"
