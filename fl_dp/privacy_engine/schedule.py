"""The noise multiplier and the clipping bounds of each step, all fixed before the first step."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from fl_dp.engine.bounds import Bounds, Group, grouped, sensitivity
from fl_dp.errors import ConfigError
from fl_dp.privacy_engine.settings import ClippingStyle, Table, chosen_bounds, number_or_table
from fl_dp.records import Entry


@dataclass(frozen=True, slots=True)
class StepSettings:
    """The settings of one step, for all its passes and its noise.

    max_grad_norm: as `engine.bounds.grouped` takes it, already split by the style; groups: its groups.
    """

    noise_multiplier: float
    max_grad_norm: Bounds
    groups: tuple[Group, ...]

    @property
    def sensitivity(self) -> float:
        """The most that one record can move the clipped sum."""
        return sensitivity(self.groups)


class Schedule:
    """The settings of every step, and the entries by which steps are priced.

    noise_multiplier, max_grad_norm: one for all steps, or a table with one number for each step. A table's
    end is the end of all steps. style, names: as in `chosen_bounds`.
    Raises ConfigError for bounds that bound nothing, for two tables of different lengths, and for a table of
    bounds alone that may be meant for parameters, as it has one number for each.
    """

    def __init__(
        self,
        noise_multiplier: float | Table,
        max_grad_norm: Bounds | Sequence[float],
        style: ClippingStyle,
        names: Collection[str],
    ) -> None:
        bound: Bounds | Table = (
            dict(max_grad_norm)
            if isinstance(max_grad_norm, Mapping)
            else number_or_table("max_grad_norm", max_grad_norm)
        )
        self._noise, self._bound, self._style, self._names = noise_multiplier, bound, style, names
        self._length = _common_length(noise_multiplier, bound)
        if isinstance(bound, tuple) and len(bound) == len(names) and not isinstance(noise_multiplier, tuple):
            raise ConfigError(
                f"max_grad_norm={list(bound)}: a list has one bound for each step, but this one has as many "
                "as there are parameters. For a bound of each, as in Opacus' per_layer, write max_grad_norm="
                f"{{{next(iter(names))!r}: {bound[0]:g}, ...}}. If {len(names)} steps are meant, append one "
                "more bound, which no step takes."
            )
        for one in set(bound) if isinstance(bound, tuple) else [bound]:
            chosen_bounds(one, style, names)
        self._settings = lru_cache(maxsize=1)(self._made)
        self.at(0)

    def at(self, step: int) -> StepSettings:
        """The settings of a step, counted from 0. ConfigError beyond the end of a table."""
        if self._length is None:
            return self._settings(0)
        if step >= self._length:
            raise ConfigError(
                f"The table of noise_multiplier or max_grad_norm has {self._length} steps, and all were "
                "taken; give PrivacyEngine a table with an entry for every step."
            )
        return self._settings(step)

    def at_or_last(self, step: int) -> StepSettings:
        """The settings of a step; beyond the end of a table, those of its last step."""
        return self.at(step if self._length is None else min(step, self._length - 1))

    def entries(self, sample_rate: float, steps: int) -> list[Entry]:
        """The first `steps` steps for an accountant, each with its own multiplier.

        Raises ConfigError for a number below 0 or beyond the end of a table.
        """
        if steps < 0 or (self._length is not None and steps > self._length):
            end = "" if self._length is None else f" <= {self._length}, the steps in the table"
            raise ConfigError(f"Expected 0 <= steps={steps}{end}.")
        if isinstance(self._noise, tuple):
            counts: Mapping[float, int] = Counter(self._noise[:steps])
        else:
            counts = {self._noise: steps} if steps else {}
        return [Entry(sample_rate, noise, count) for noise, count in counts.items()]

    def as_dict(self) -> dict[str, Any]:
        """What must be the same in an engine that continues; numbers, tuples and dicts only."""
        found: dict[str, Any] = {"noise_multiplier": self._noise}
        if isinstance(self._bound, tuple):
            return found | {"max_grad_norm": self._bound, "clipping_style": self._style}
        bounds = self.at(0).max_grad_norm
        return found | {"max_grad_norm": dict(bounds) if isinstance(bounds, Mapping) else bounds}

    def _made(self, step: int) -> StepSettings:
        noise = self._noise[step] if isinstance(self._noise, tuple) else self._noise
        bound = self._bound[step] if isinstance(self._bound, tuple) else self._bound
        bounds = chosen_bounds(bound, self._style, self._names)
        if isinstance(bounds, Mapping):
            bounds = MappingProxyType(bounds)  # read-only: two passes of a step must see the same bounds
        return StepSettings(noise, bounds, grouped(bounds, self._names))


def _common_length(noise_multiplier: float | Table, max_grad_norm: Bounds | Table) -> int | None:
    """The number of steps in the tables; None if there is no table."""
    given = {"noise_multiplier": noise_multiplier, "max_grad_norm": max_grad_norm}
    lengths = {name: len(value) for name, value in given.items() if isinstance(value, tuple)}
    if len(set(lengths.values())) > 1:
        told = " and ".join(f"{length} of {name}" for name, length in lengths.items())
        raise ConfigError(f"Tables of {told}: expected one entry of each for every step.")
    return next(iter(lengths.values()), None)
