"""A client's cache, for rounds of one kind: the rows of a pass, its kernels, and whether rows are steady.

Measuring this takes longer than a round of a small model. It uses random numbers: neither the measurement nor
the cache has seen a record.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from fl_dp.config.client import ClientConfig
from fl_dp.durable_files import private_folder, write_whole
from fl_dp.federation.client.kept_states import kept_by
from fl_dp.federation.devices import card
from fl_dp.records import NUMERICS, RoundPlan
from fl_dp.steady_math import machine

logger = logging.getLogger("fl_dp.clients")

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
    path, kind = kept_by(config, ENDING), _kind(plan, devices, at_most)
    rows = _read(path).get(kind)
    if type(rows) is int and 1 <= rows <= at_most:
        return rows
    chosen = choose()
    _keep(path, kind, chosen)
    return chosen


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
    of_kernels = "kernels", version("fl-dp"), machine(), config.memory_mib
    path, kind = kept_by(config, ENDING), _kind(plan, devices, rows, *of_kernels)
    kept = _read(path).get(kind)
    if isinstance(kept, dict) and all(isinstance(kernel, str) for kernel in kept.values()):
        return kept
    chosen = dict(choose())
    _keep(path, kind, chosen)
    return chosen


def check_once(
    config: ClientConfig,
    plan: RoundPlan,
    devices: Sequence[torch.device],
    rows: int,
    kernels: Mapping[str, str],
    check: Callable[[int], None],
) -> None:
    """Call `check`, unless it has passed for such a round, with these kernels, on such a processor."""
    path, kind = kept_by(config, ENDING), _kind(plan, devices, rows, "steady", machine(), str(dict(kernels)))
    if _read(path).get(kind) is not True:
        check(rows)
        _keep(path, kind, value=True)


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


def _keep(path: Path, kind: str, value: int | dict[str, str]) -> None:
    """Write to the cache. If that fails, the client's log says so, and the round continues."""
    table = _read(path) | {kind: value}
    content = json.dumps(dict(list(table.items())[-_MOST_KINDS:])).encode()
    try:
        private_folder(path.parent)
        write_whole(path, lambda file: file.write(content), secret=True)
    except OSError as error:
        logger.warning("%s: rows are not kept there: %s", path, error)
