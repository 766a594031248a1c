"""Chooses parameters by patterns of their names, "head.*, blocks.?.norm*, !*.bias", as those to train."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from torch import nn

from fl_dp.errors import ConfigError

_ADAPTERS = (".lora_A.", ".lora_B.", ".lora_embedding_A.", ".lora_embedding_B.")


def chosen(key: str, patterns: str, names: Sequence[str], what: str) -> frozenset[str]:
    """Those of `names` that match a pattern and none prefixed with "!"; patterns are separated by commas.

    With only "!" patterns, all other names are chosen. key: the setting, what: what has these names; both for
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


def is_adapter(name: str) -> bool:
    """Whether a parameter of that name is one of LoRA's."""
    return any(part in f".{name}." for part in _ADAPTERS)


def choose_trainable(model: nn.Module, patterns: str, *, adapters: bool = False) -> None:
    """Freeze, in place, all parameters except those that `patterns` choose: at the server and every client.

    Without patterns the model is unchanged. adapters: LoRA's parameters are trained, too, without being
    named. A tied parameter is known by its first name. ConfigError for patterns that choose nothing.
    """
    if not patterns:
        return
    own = {name: p for name, p in model.named_parameters() if not (adapters and is_adapter(name))}
    wanted = chosen("trainable", patterns, tuple(own), "parameter")
    for name, parameter in own.items():
        parameter.requires_grad_(name in wanted)
