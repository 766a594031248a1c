"""Settings that depend on another one, and what they are where nobody gave them.

Who asks for three clients means three in each round, unless the config says otherwise: `min-clients` and
`fit-clients` follow `clients`, up and down, where they are equal to it. A smaller value is a choice, and
stays as long as it fits. `physical-batch-size` is only ever lowered.
"""

from collections.abc import Mapping
from typing import Any

from fl_dp.config.ranges import MOST_CLIENTS

_FOLLOWS = (("min-clients", "clients"), ("fit-clients", "clients"))  # where equal; else lowered to it
_AT_MOST = (*_FOLLOWS, ("physical-batch-size", "expected-batch-size"))


def dependent_values(base: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, int]:
    """Of the keys that are not `given` those that do not stay as in `base`, and what they are instead.

    Both by run-config key; base: all keys. A value that is no integer is left to those who check it.
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
