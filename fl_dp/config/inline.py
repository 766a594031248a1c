"""A setting that holds several, written as an inline TOML table: `betas=[0.9,0.99],weight_decay=0.01`."""

import json
import tomllib
from functools import lru_cache
from typing import Any

from fl_dp.config.files import DAMAGED
from fl_dp.config.flat import require
from fl_dp.errors import ConfigError

MOMENTUM = "momentum"
LONGEST = 300  # characters; it travels in every round's plan


def inline_table(key: str, text: str) -> dict[str, Any]:
    """`text` parsed as the inside of an inline TOML table; ConfigError, which names `key`, if it is none."""
    require(len(text) <= LONGEST and text.isprintable(), key, text[:LONGEST], f"{LONGEST} characters at most")
    try:
        whole = tomllib.loads(f"table = {{{text}}}")
    except DAMAGED as error:
        raise ConfigError(
            f"{key} = {text!r}: expected NAME=VALUE,... as inside a TOML inline table: {error}"
        ) from None
    require(whole.keys() == {"table"}, key, text, "NAME=VALUE,... and nothing after it")
    table: dict[str, Any] = whole["table"]
    return table


@lru_cache(maxsize=8)
def without_momentum(key: str, text: str) -> tuple[float, str]:
    """The momentum in `text`, 0 if it has none, and the text without it. ConfigError as `inline_table`."""
    table = inline_table(key, text)
    if MOMENTUM not in table:
        return 0.0, text
    momentum = table.pop(MOMENTUM)
    fits = type(momentum) in (int, float) and 0 <= momentum < 1
    require(fits, key, text, f"{MOMENTUM} as a number in [0, 1)")
    return float(momentum), ",".join(f"{name}={json.dumps(value)}" for name, value in table.items())
