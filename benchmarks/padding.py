"""What one public shape for every pass costs: a private step with it, over one of as many rows as were drawn.

    python -m benchmarks.padding

The same steps, of the same draws, in turns: one with the rows that `PrivateTrainer.choose_rows` finds, one
whose passes have as many rows as there are examples, up to twice the expected batch. One thread, random
pictures.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from unittest.mock import patch

import torch

from benchmarks.markdown import table
from benchmarks.options import Report, common_parser, publish
from fl_dp.config.task import TaskSettings
from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.models.build import build_model
from fl_dp.records import RoundPlan
from fl_dp.tasks.task import Task
from fl_dp.training import private
from fl_dp.training.examples import axes_of
from fl_dp.training.private import PrivateTrainer

_MODELS = {"linear": (1, 28, 28), "tanh-cnn": (1, 28, 28), "torchvision:resnet18": (3, 32, 32)}
_MEANS, _CLASSES, _RECORDS = (64, 20), 10, 2000
_SECONDS, _STEPS = 20.0, 400  # for each model and mean, whichever is first


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    publish(run(options), options)


def parser() -> argparse.ArgumentParser:
    parser = common_parser("benchmarks.padding", __doc__)
    parser.add_argument("--models", type=lambda text: text.split(","), default=["linear", "tanh-cnn"])
    return parser


def run(options: argparse.Namespace) -> Report:
    torch.set_num_threads(1)
    rows, data = [], {}
    for name in options.models:
        for mean in _MEANS:
            chosen, filled, plain, ratio = _compared(name, mean, torch.device(options.device))
            data[f"{name} {mean}"] = {"rows": chosen, "filled": filled, "plain": plain, "ratio": ratio}
            rows.append((name, str(mean), str(chosen), f"{filled:.1f}", f"{plain:.1f}", f"{ratio:.2f}"))
    headings = ("model", "mean draw", "rows of a pass", "ms, one shape", "ms, as drawn", "ratio")
    return Report(table(headings, rows, left=1), data)


def _compared(name: str, mean: int, device: torch.device) -> tuple[int, float, float, float]:
    """The rows, the median milliseconds of a step each way, and the median ratio of two that follow."""
    data = _data(_MODELS[name])
    key = Randomness.system()
    shaped, free = (_trainer(name, mean, data, device, key) for _ in range(2))
    rows = shaped.choose_rows(2 * mean)
    started, pairs = time.perf_counter(), []
    while len(pairs) < _STEPS and time.perf_counter() - started < _SECONDS:
        pairs.append((_milliseconds(shaped, data, mean, rows), _milliseconds(free, data, mean, None)))
    shaped_ms, free_ms = (statistics.median(times) for times in zip(*pairs[2:], strict=True))
    return rows, shaped_ms, free_ms, statistics.median(one / other for one, other in pairs[2:])


def _milliseconds(trainer: PrivateTrainer, data: TensorData, mean: int, rows: int | None) -> float:
    start = time.perf_counter()
    if rows is None:
        with patch.object(private, "filled", lambda _rows, batch: tuple(batch)):
            trainer.step(data, mean / len(data), 2 * mean)
    else:
        trainer.step(data, mean / len(data), rows)
    return 1e3 * (time.perf_counter() - start)


def _trainer(name: str, mean: int, data: TensorData, device: torch.device, key: Randomness) -> PrivateTrainer:
    model = build_model(name, data.form, seed=0).to(device).train()
    plan = RoundPlan("padding", 1, name, 1, mean, 0.01, 0.0, 1.0, 1.0)
    task = Task(TaskSettings())
    task.form = data.form
    axes = axes_of(model, task.objective, device)
    return PrivateTrainer(model, axes, plan, task.objective, device=device, randomness=key)


def _data(shape: tuple[int, ...]) -> TensorData:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (_RECORDS, *shape), generator=generator, dtype=torch.uint8)
    y = torch.randint(0, _CLASSES, (_RECORDS,), generator=generator)
    return TensorData(x, y, tuple(map(str, range(_CLASSES))))


if __name__ == "__main__":
    main()
