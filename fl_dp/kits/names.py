"""Names of sites and federations: they stand in reports, file names and signed texts."""

import re

from fl_dp.errors import ConfigError

MOST_CHARACTERS = 64
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


def check_name(name: object, what: str) -> str:
    """The name; ConfigError unless it is a short word of letters, digits and . _ - inside it."""
    if not isinstance(name, str) or len(name) > MOST_CHARACTERS or not _NAME.fullmatch(name):
        raise ConfigError(
            f"{what} {name!r}: expected at most {MOST_CHARACTERS} letters, digits, '.', '_' or '-', "
            "the first and last a letter or digit."
        )
    return name
