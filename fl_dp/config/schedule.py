"""The learning rate in each round: the server puts it into its plan.

| schedule      | in round r of R, from the first value                 |
|---------------|-------------------------------------------------------|
| constant      | value                                                 |
| linear        | value * (1 - (r - 1) / R)                             |
| linear:LAST   | evenly down to value * LAST in round R                |
| cosine        | value * (1 + cos(pi * (r - 1) / R)) / 2               |
| step:N:FACTOR | value * FACTOR ** k, after every N rounds k is 1 more |

Loshchilov, Hutter 2017, arXiv 1608.03983, for cosine. The rate changes no epsilon.
"""

import math
from contextlib import suppress

from fl_dp.errors import ConfigError


def value_in(schedule: str, first: float, server_round: int, rounds: int) -> float:
    """The value in round `server_round` (from 1) of `rounds`; ConfigError for an unknown schedule.

    A run that continues after its last round keeps that round's value.
    """
    over = min(server_round, rounds) - 1
    match schedule.split(":"):
        case ["constant"]:
            return first
        case ["linear"]:
            return first * (1 - over / rounds)
        case ["linear", last]:
            return first * (1 - (1 - _factor(schedule, last)) * over / max(1, rounds - 1))
        case ["cosine"]:
            return first * (1 + math.cos(math.pi * over / rounds)) / 2
        case ["step", every, factor] if every.isdecimal() and int(every) >= 1:
            return first * _factor(schedule, factor) ** (over // int(every))
    raise _unknown(schedule)


def check_schedule(key: str, schedule: str, first: float, rounds: int) -> None:
    """Raise ConfigError, naming `key`, for an unknown schedule, or one that reaches zero."""
    try:
        last = value_in(schedule, first, rounds, rounds)
    except ConfigError as error:
        raise ConfigError(f"{key} = {error}") from None
    if not last > 0:
        raise ConfigError(f"{key} = {schedule!r}: the value of round {rounds} would be 0.")


def _factor(schedule: str, text: str) -> float:
    with suppress(ValueError):
        if 0 < (factor := float(text)) <= 1:
            return factor
    raise _unknown(schedule)


def _unknown(schedule: str) -> ConfigError:
    return ConfigError(
        f"{schedule!r}: expected constant, linear, linear:LAST, cosine or step:N:FACTOR, with a number N of "
        "rounds, 0 < LAST <= 1 and 0 < FACTOR <= 1."
    )
