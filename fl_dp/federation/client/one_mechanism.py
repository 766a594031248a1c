"""One mechanism for all of a data set's rounds: what makes its epsilon hold whatever a server asks next.

A server that sees the first rounds' results may let its next questions depend on them. For weights, clipping
bound and learning rate that costs nothing (Zhu, Dong, Wang 2022, arXiv 2106.08567, theorem 10). For
sample rate and noise it does: an accountant that only knows their sums may then report too little
(arXiv 2602.15815: such filters hold if the compositions of all mechanisms are totally ordered). Steps of one
mechanism are ordered, by their number. docs/privacy.md has the argument.
"""

from collections.abc import Iterable

from fl_dp.accounting.budget import Budget
from fl_dp.errors import DeclinedError
from fl_dp.records import Entry


class OneMechanismBudget(Budget):
    """A budget that pays for steps of one sample rate and one noise multiplier only, those of its first.

    Checked where the ledger asks it, inside the ledger's transaction, so that two rounds at once cannot both
    be the first.
    """

    __slots__ = ()

    def steps_that_fit(
        self, sample_rate: float, noise_multiplier: float, planned: int, spent: Iterable[Entry]
    ) -> int:
        """As of any Budget; DeclinedError, with the reason, for another mechanism than was spent on."""
        spent = tuple(spent)
        if reason := conflict(sample_rate, noise_multiplier, spent):
            raise DeclinedError(reason)
        return super().steps_that_fit(sample_rate, noise_multiplier, planned, spent)


def conflict(sample_rate: float, noise_multiplier: float, spent: Iterable[Entry]) -> str:
    """Why this is not the mechanism that was spent on; empty if it is, or if nothing was spent."""
    held = sorted({(entry.sample_rate, entry.noise_multiplier) for entry in spent})
    if held in ([], [(sample_rate, noise_multiplier)]):
        return ""
    mechanisms = " and ".join(_words(*mechanism) for mechanism in held)
    return (
        f"The round asks for {_words(sample_rate, noise_multiplier)}; this client's data were trained with "
        f"{mechanisms}, and its epsilon holds for one mechanism. Ask for the first, or have its operator set "
        "vary-mechanism (docs/privacy.md)."
    )


def _words(sample_rate: float, noise_multiplier: float) -> str:
    return f"sample rate {sample_rate:.6g} with noise multiplier {noise_multiplier:.6g}"
