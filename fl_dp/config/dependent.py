"""Settings that depend on another one, and their values if not given.

Three clients mean three in each round, unless the config says otherwise: `min-clients` and `fit-clients`
follow `clients`, up and down, if they are equal to it. A smaller value is a choice, and stays as long as it
fits. `physical-batch-size` is only ever lowered.
"""

from collections.abc import Mapping
from typing import Any

from fl_dp.config.setting import MOST_CLIENTS

_FOLLOWS = (("min-clients", "clients"), ("fit-clients", "clients"))  # if equal; otherwise lowered to it
_AT_MOST = (*_FOLLOWS, ("physical-batch-size", "expected-batch-size"))


def dependent_values(base: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, int]:
    """The new values of keys that are not `given` and that do not stay as in `base`.

    Both mappings are by run-config key; base has all. A value that is no integer is left to later checks.
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
