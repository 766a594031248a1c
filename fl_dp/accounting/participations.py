"""In how many rounds a client that is drawn by chance takes part: what its noise is planned for."""

ENOUGH = 0.9  # of the clients take part no more often than what "auto" plans for


def planned_participations(rounds: int, share: float) -> int:
    """The least number of rounds that a client, in each with chance `share`, hardly ever exceeds.

    The 0.9 quantile of the binomial distribution, at least 1. A client that is drawn more often stops at its
    budget, as always: the number decides how much noise its rounds have, and never what it may spend.
    """
    from scipy.stats import binom  # type: ignore[import-untyped]  # late: it takes a while to import

    return max(1, int(binom.ppf(ENOUGH, rounds, min(1.0, share))))
