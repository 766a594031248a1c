"""The number of rounds for which the noise of a randomly chosen client is planned."""

ENOUGH = 0.9  # of the clients take part no more often than what "auto" plans for


def planned_participations(rounds: int, share: float) -> int:
    """The smallest number of rounds that a client, chosen in each with probability `share`, rarely exceeds.

    It is the 0.9 quantile of the binomial distribution, at least 1. A client that is chosen more often stops
    at its budget, as always: this number decides how much noise its rounds have, never what it may spend.
    """
    from scipy.stats import binom  # type: ignore[import-untyped]  # late: it takes a while to import

    return max(1, int(binom.ppf(ENOUGH, rounds, min(1.0, share))))
