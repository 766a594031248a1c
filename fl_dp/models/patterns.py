"""Names chosen by patterns: "head.*, blocks.?.norm*, !*.bias"."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from fl_dp.errors import ConfigError


def chosen(key: str, patterns: str, names: Sequence[str], what: str) -> frozenset[str]:
    """Those of `names` that match a pattern and none prefixed with "!"; patterns are separated by commas.

    With only "!" patterns, all other names are chosen. key: the setting; what: what the names are of, for
    errors. ConfigError for a pattern that matches nothing, and if nothing is left.
    """
    words = [word.strip() for word in patterns.split(",")]
    matched = {word: {name for name in names if fnmatchcase(name, word.removeprefix("!"))} for word in words}
    for word, found in matched.items():
        if not found:
            raise ConfigError(f"{key} = {patterns!r}: {word!r} matches no {what}; there are {_some(names)}.")
    wanted = [found for word, found in matched.items() if not word.startswith("!")]
    excluded = [found for word, found in matched.items() if word.startswith("!")]
    left = (set[str]().union(*wanted) if wanted else set(names)).difference(*excluded)
    if not left:
        raise ConfigError(f"{key} = {patterns!r}: leaves no {what}; there are {_some(names)}.")
    return frozenset(left)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:6])
    return shown if len(names) <= 6 else f"{shown}, ... {names[-1]}"
