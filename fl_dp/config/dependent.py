"""Settings that follow another one if they are not given.

`min-clients` and `fit-clients` follow `clients`, up and down, if they were equal to it. A smaller value was
chosen, and stays as long as it fits. `physical-batch-size` is only lowered, to `expected-batch-size`.
"""

from collections.abc import Mapping
from typing import Any

from fl_dp.config.setting import MOST_CLIENTS

_FOLLOWS = (("min-clients", "clients"), ("fit-clients", "clients"))  # if equal; otherwise lowered to it
_AT_MOST = (*_FOLLOWS, ("physical-batch-size", "expected-batch-size"))


def dependent_values(base: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, int]:
    """New values of the keys of `base`, a whole run config, that are not `given` and have to change.

    A value that is no integer is left to later checks.
    """
    found: dict[str, int] = {}
    for key, limit in _AT_MOST:
        value, before, now = base[key], base[limit], given.get(limit)
        if key in given or type(now) is not int or type(value) is not int or not 1 <= now <= MOST_CLIENTS:
            continue
        follows = (key, limit) in _FOLLOWS and value == before
        if now != value and (follows or now < value):
            found[key] = now
    return found
