"""A client's cache for rounds of one kind: the rows of a pass, its kernels, and whether rows are steady.

Measuring these takes longer than a round of a small model. The measurement uses random numbers, so neither it
nor the cache depends on a record.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar, cast

import torch

from fl_dp.config.client import ClientConfig
from fl_dp.durable_files import private_folder, write_whole
from fl_dp.federation.client.kept_states import kept_by
from fl_dp.federation.devices import card
from fl_dp.records import NUMERICS, RoundPlan
from fl_dp.steady_math import machine

logger = logging.getLogger("fl_dp.clients")
Value = TypeVar("Value")

ENDING = ".rows.json"
_MOST_KINDS = 64
_OF_A_KIND = (  # of a plan: all that the time of a pass depends on
    "model",
    "trained",
    "expected_batch_size",
    "private",
    "loss",
    "task",
    "arithmetic",
    "class_weights",
    "unit",
    "local_algorithm",
    "personal",
    "seen",
)


def rows_of(
    config: ClientConfig,
    plan: RoundPlan,
    devices: Sequence[torch.device],
    at_most: int,
    choose: Callable[[], int],
) -> int:
    """The cached rows for such a round, from 1 to `at_most`; else calls `choose` and caches its result."""
    kind = _kind(plan, devices, at_most)
    return _cached(config, kind, lambda kept: type(kept) is int and 1 <= kept <= at_most, choose)


def kernels_of(
    config: ClientConfig,
    plan: RoundPlan,
    devices: Sequence[torch.device],
    rows: int,
    choose: Callable[[], Mapping[str, str]],
) -> Mapping[str, str]:
    """The cached kernels for such a round on such a processor; else calls `choose` and caches its result.

    Which of two kernels is faster can change from moment to moment; so all rounds use the same.
    """

    def are_kernels(kept: object) -> bool:
        return isinstance(kept, dict) and all(isinstance(kernel, str) for kernel in kept.values())

    kind = _kind(plan, devices, rows, "kernels", version("fl-dp"), machine(), config.memory_mib)
    return _cached(config, kind, are_kernels, lambda: dict(choose()))


def check_once(
    config: ClientConfig,
    plan: RoundPlan,
    devices: Sequence[torch.device],
    rows: int,
    kernels: Mapping[str, str],
    check: Callable[[int], None],
) -> None:
    """Call `check`, unless it has passed for such a round, with these kernels, on such a processor."""

    def checked() -> bool:
        check(rows)
        return True

    kind = _kind(plan, devices, rows, "steady", machine(), str(dict(kernels)))
    _cached(config, kind, lambda kept: kept is True, checked)


def _cached(
    config: ClientConfig, kind: str, is_sound: Callable[[object], bool], make: Callable[[], Value]
) -> Value:
    path = kept_by(config, ENDING)
    kept: Any = _read(path).get(kind)
    if is_sound(kept):
        return cast(Value, kept)
    made = make()
    _keep(path, kind, made)
    return made


def _kind(plan: RoundPlan, devices: Sequence[torch.device], at_most: int, *more: object) -> str:
    of_plan = [str(getattr(plan, name)) for name in _OF_A_KIND]
    of_machine = [
        ",".join(map(card, devices)),
        torch.__version__,
        str(torch.get_num_threads()),
        str(NUMERICS),
        str(at_most),
    ]
    return hashlib.sha256("\0".join([*of_plan, *of_machine, *map(str, more)]).encode()).hexdigest()[:16]


def _read(path: Path) -> dict[str, Any]:
    """The cache; empty if the file is missing, or damaged, and then it is rewritten."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _keep(path: Path, kind: str, value: object) -> None:
    """Write to the cache. If that fails, the client's log says so, and the round continues."""
    table = _read(path) | {kind: value}
    content = json.dumps(dict(list(table.items())[-_MOST_KINDS:])).encode()
    try:
        private_folder(path.parent)
        write_whole(path, lambda file: file.write(content), secret=True)
    except OSError as error:
        logger.warning("%s: rows are not kept there: %s", path, error)
