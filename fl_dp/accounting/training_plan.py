"""How many steps and rounds a plan has for one client: from epochs, and from how clients are chosen."""

import math

from fl_dp.errors import ConfigError

_MOST_RECORDS = 10**15  # products with it stay exact integers in double precision
ENOUGH = 0.9  # of the clients take part no more often than what "auto" plans for


def steps_of_epochs(records: int, batch_size: int, local_epochs: float) -> int:
    """Steps of `local_epochs` expected passes over the records, rounded up, as a federation takes them."""
    if records < 1 or batch_size < 1:
        raise ConfigError(f"records = {records}, batch-size = {batch_size}: expected integers >= 1.")
    if not 0.0 < local_epochs < math.inf:
        raise ConfigError(f"local-epochs = {local_epochs}: expected a finite number > 0.")
    if records > _MOST_RECORDS:
        raise ConfigError(
            f"records: expected at most {_MOST_RECORDS:g}; larger numbers are not counted exactly."
        )
    steps = local_epochs * records / batch_size
    if not math.isfinite(steps):
        raise ConfigError(f"local-epochs = {local_epochs} of records = {records}: too many steps to count.")
    return math.ceil(steps)


def turns_of(rounds: int, asked: int, clients: int) -> int:
    """The most rounds of a client if each round asks `asked` clients, each once before any twice."""
    return math.ceil(rounds * asked / clients)


def chosen_rounds(rounds: int, share: float, quantile: float = ENOUGH) -> int:
    """This quantile of the number of rounds of a client that is chosen in each with probability `share`.

    Noise is planned for the 0.9 quantile, or for 1. A client that is chosen more often stops at its budget,
    as always: the number decides how much noise its rounds have, never what it may spend.
    """
    if share >= 1.0:
        return rounds
    from scipy.stats import binom  # type: ignore[import-untyped]  # late: it takes a second

    return int(binom.ppf(quantile, rounds, share))
