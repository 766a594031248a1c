"""The clients' learning rate in each round: the server computes it and puts it into the round's plan.

| schedule      | in round r of R, from the first rate                 |
|---------------|------------------------------------------------------|
| constant      | rate                                                 |
| linear        | rate * (1 - (r - 1) / R)                             |
| cosine        | rate * (1 + cos(pi * (r - 1) / R)) / 2               |
| step:N:FACTOR | rate * FACTOR ** k, after every N rounds k is 1 more |

Loshchilov, Hutter 2017, arXiv 1608.03983, for cosine. A rate changes no epsilon.
"""

import math

from fl_dp.errors import ConfigError

KEY = "learning-rate-schedule"


def learning_rate_in(schedule: str, first: float, server_round: int, rounds: int) -> float:
    """The rate of round `server_round` (from 1) of `rounds`; ConfigError for an unknown schedule.

    A run that goes on after its last round keeps that round's rate.
    """
    over = min(server_round, rounds) - 1
    match schedule.split(":"):
        case ["constant"]:
            return first
        case ["linear"]:
            return first * (1 - over / rounds)
        case ["cosine"]:
            return first * (1 + math.cos(math.pi * over / rounds)) / 2
        case ["step", every, factor] if every.isdecimal() and int(every) >= 1:
            return first * _factor(schedule, factor) ** (over // int(every))
    raise _unknown(schedule)


def check_schedule(schedule: str, first: float, rounds: int) -> None:
    """Raise ConfigError for an unknown schedule, or one whose last rate is too small to be a number."""
    last = learning_rate_in(schedule, first, rounds, rounds)
    if not last > 0:
        raise ConfigError(f"{KEY} = {schedule!r}: the rate of round {rounds} would be 0.")


def _factor(schedule: str, text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        raise _unknown(schedule) from None
    if not 0 < factor <= 1:
        raise _unknown(schedule)
    return factor


def _unknown(schedule: str) -> ConfigError:
    return ConfigError(
        f"{KEY} = {schedule!r}: expected constant, linear, cosine or step:N:FACTOR, with a number N of "
        "rounds and 0 < FACTOR <= 1."
    )
