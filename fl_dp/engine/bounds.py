"""Clipping bounds: one over all parameters, or one for each group of them."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from fl_dp.errors import ConfigError

# One bound for everything, or a mapping from modules or parameters to bounds: see `grouped`.
Bounds = float | Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Group:
    """Parameters whose gradients are clipped together, to one bound on their common length."""

    parameters: tuple[str, ...]
    bound: float


def grouped(max_grad_norm: Bounds, names: Collection[str]) -> tuple[Group, ...]:
    """The groups of the parameters `names`; every parameter is in exactly one.

    max_grad_norm: the keys of a mapping are names of modules or parameters. A parameter belongs to the
    longest key that is its own name, the name of a module around it, or "". With {"": 1.0, "head": 0.1}
    head.weight is in "head", and all parameters outside of head are in "". Raises ConfigError for a
    parameter without a key, and for a key without a parameter.
    """
    if not isinstance(max_grad_norm, Mapping):
        return (Group(tuple(names), max_grad_norm),)
    members: dict[str, list[str]] = {key: [] for key in max_grad_norm}
    for name in names:
        members[_group_of(name, members)].append(name)
    for key, its_names in members.items():
        if not its_names:
            raise ConfigError(f"max_grad_norm names {key!r}, to which no parameter belongs; leave it out.")
    return tuple(Group(tuple(members[key]), bound) for key, bound in max_grad_norm.items())


def _group_of(name: str, keys: Iterable[str]) -> str:
    leading = [key for key in keys if key in ("", name) or name.startswith(f"{key}.")]
    if not leading:
        raise ConfigError(
            f'Parameter {name} is in no group of max_grad_norm; name its module, or "" for all others.'
        )
    return max(leading, key=len)


def sensitivity(groups: Iterable[Group]) -> float:
    """The most that one record can move the sum: sqrt(sum of C_g^2), as groups' gradients are orthogonal."""
    return math.hypot(*(group.bound for group in groups))


def split_bound(max_grad_norm: float, groups: Collection[str]) -> dict[str, float]:
    """Equal bounds for `groups` (C / sqrt(G) each) whose sensitivity together is `max_grad_norm`.

    Args:
        max_grad_norm: C, of all groups together.
        groups: Names of modules or parameters; "" for all others.

    Returns:
        A bound for each group, as `max_grad_norm=` takes them.

    Raises:
        ConfigError: No group.

    Example:
        >>> import fl_dp
        >>> fl_dp.split_bound(1.0, ["body", "head", "tail", ""])
        {'body': 0.5, 'head': 0.5, 'tail': 0.5, '': 0.5}
    """
    if not groups:
        raise ConfigError("Expected at least one group to split max_grad_norm over.")
    return dict.fromkeys(groups, max_grad_norm / math.sqrt(len(set(groups))))
