"""Flat settings with kebab-case keys become validated frozen dataclasses, and back."""

import dataclasses
import difflib
import types
import typing
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from fl_dp.choices import ACCOUNTANTS
from fl_dp.config.files import read_toml
from fl_dp.errors import ConfigError
from fl_dp.records import ARITHMETICS

AUTO = "auto"
Auto = Literal["auto"]
Scalar = str | int | float | bool

_UNIONS = (typing.Union, types.UnionType)


def key_of(field: str) -> str:
    return field.replace("_", "-")


def _typed(key: str, value: Any, hint: Any) -> Any:
    """`value` as the type that `hint` declares; an int serves where a float is declared."""
    options = typing.get_args(hint) if typing.get_origin(hint) in _UNIONS else (hint,)
    for option in options:
        if typing.get_origin(option) is Literal:
            if value in typing.get_args(option):
                return value
        elif option is float and type(value) in (int, float):
            return _float(key, value)
        elif type(value) is option:  # not isinstance: a bool must not pass for an int
            return value
    words = " or ".join(
        repr(typing.get_args(o)[0]) if typing.get_origin(o) is Literal else o.__name__ for o in options
    )
    raise ConfigError(f"{key} = {value!r}: expected {words}.")


def _float(key: str, value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ConfigError(f"{key}: expected a number, not one of more than 300 digits.") from None


class FlatConfig:
    """Conversion between a frozen dataclass and a flat mapping with kebab-case keys."""

    @classmethod
    def from_flat(cls, flat: Mapping[str, Any]) -> Self:
        """Build from a flat mapping; unknown keys and wrong types raise ConfigError by name."""
        hints = typing.get_type_hints(cls)
        known = {key_of(name): name for name in hints}
        for key in flat:
            if key not in known:
                raise ConfigError(f"{key}: unknown key; {_meant(key, known)}.")
        return cls(**{known[k]: _typed(k, v, hints[known[k]]) for k, v in flat.items()})

    @classmethod
    def from_toml(cls, path: Path) -> Self:
        """Read a flat TOML file; every error names the file."""
        found = read_toml(path, what="config file")
        try:
            return cls.from_flat(found)
        except (ConfigError, TypeError) as error:
            raise ConfigError(f"{path}: {error}") from None

    def to_flat(self) -> dict[str, Scalar]:
        """The flat mapping that `from_flat` turns back into an equal object."""
        return {key_of(f.name): getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]


def _meant(key: str, known: Collection[str]) -> str:
    """The known key that looks most like it; all of them where none does."""
    if near := difflib.get_close_matches(key.replace("_", "-"), known, 1):
        return f"did you mean {near[0]}?"
    return f"known keys are {', '.join(sorted(known))}"


def require(condition: bool, key: str, value: object, expected: str) -> None:
    if not condition:
        raise ConfigError(f"{key} = {value!r}: expected {expected}.")


def require_delta(delta: float | Auto) -> None:
    if delta != AUTO:
        require(0 < typing.cast(float, delta) < 1, "delta", delta, "a number between 0 and 1, or 'auto'")


def require_arithmetic(name: str) -> None:
    """ConfigError unless it is one of `ARITHMETICS`."""
    require(name in ARITHMETICS, "arithmetic", name, " or ".join(ARITHMETICS))


def require_own_accountant(name: str) -> None:
    """ConfigError unless fl_dp itself has an accountant of that name.

    Whether its epsilon is a proven upper bound, the accountant alone knows: `Budget` asks it.
    """
    own = ACCOUNTANTS.built_in()
    if name in own:
        return
    if name in ACCOUNTANTS.names():
        raise ConfigError(
            f"accountant = {name!r}: another package has brought it, so that it serves for planning (fl-dp "
            f"budget --accountant {name}) and may not hold a budget; take one of {', '.join(own)}."
        )
    raise ConfigError(f"accountant = {name!r}: expected {' or '.join(own)}.")
