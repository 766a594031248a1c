"""What a private step on persons costs, over plain SGD on the same records.

    python -m benchmarks.persons [--drawn 16]

In turns, on as many drawn persons: a private step whose examples are persons, and a plain step on the same
number of persons with the same number of records. Everybody has as many records as may count; where persons
have one record each, the private step takes as long (no shape tells), and the plain one is that of single
records. One thread.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace

import torch

from benchmarks.markdown import table
from benchmarks.options import Report, common_parser, publish
from fl_dp.config.task import TaskSettings
from fl_dp.data.persons import PersonData
from fl_dp.data.tensor_data import TensorData
from fl_dp.models.build import build_model
from fl_dp.records import RoundPlan
from fl_dp.tasks.task import Task
from fl_dp.training.examples import axes_of
from fl_dp.training.trainer import Trainer, trainer_of

_MODELS = {"linear": (1, 28, 28), "tanh-cnn": (1, 28, 28), "resnet18-gn": (3, 32, 32)}
_PERSONS_PER_DRAWN, _MOST, _CLASSES = 12, (1, 8, 32), 10
_SECONDS, _PAIRS = 15.0, 200  # for each row, whichever is first


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    publish(run(options), options)


def parser() -> argparse.ArgumentParser:
    parser = common_parser("benchmarks.persons", __doc__)
    parser.add_argument("--models", type=lambda text: text.split(","), default=["linear", "tanh-cnn"])
    parser.add_argument("--drawn", type=int, default=16, help="persons of a step, in the mean")
    return parser


def run(options: argparse.Namespace) -> Report:
    torch.set_num_threads(1)
    rows, data = [], {}
    for name in options.models:
        for most in _MOST:
            private, plain, ratio = _compared(name, most, options.drawn, torch.device(options.device))
            data[f"{name} {most}"] = {"private": private, "plain": plain, "ratio": ratio}
            rows.append((name, str(most), f"{private:.1f}", f"{plain:.1f}", f"{ratio:.2f}"))
    headings = ("model", "records per person", "ms, private", "ms, plain", "ratio")
    return Report(table(headings, rows, left=1), data)


def _compared(name: str, most: int, drawn: int, device: torch.device) -> tuple[float, float, float]:
    """The median milliseconds of a step each way, and the median ratio of two that follow."""
    data = _people(_MODELS[name], most, drawn * _PERSONS_PER_DRAWN)
    private, plain = (_trainer(name, data, drawn, device, private=private) for private in (True, False))
    at_once = private.choose_rows(2 * drawn)
    started, pairs = time.perf_counter(), []
    while len(pairs) < _PAIRS and (len(pairs) < 5 or time.perf_counter() - started < _SECONDS):
        ours, theirs = _milliseconds(private, data, at_once), _milliseconds(plain, data, drawn)
        pairs.append((ours, theirs))
    private_ms, plain_ms = (statistics.median(times) for times in zip(*pairs[2:], strict=True))
    return private_ms, plain_ms, statistics.median(one / other for one, other in pairs[2:])


def _milliseconds(trainer: Trainer, data: PersonData, at_once: int) -> float:
    start = time.perf_counter()
    trainer.step(data, 1 / _PERSONS_PER_DRAWN, at_once)
    return 1e3 * (time.perf_counter() - start)


def _trainer(name: str, data: PersonData, drawn: int, device: torch.device, *, private: bool) -> Trainer:
    model = build_model(name, data.form, seed=0).to(device)
    plan = RoundPlan("persons", 1, name, 1, drawn, 0.01, 0.0, 1.0, 1.0)
    task = Task(TaskSettings(unit="person:who", records_per_person=data.most))
    task.form = data.form
    if not private:
        return trainer_of(
            model, replace(plan, private=False, noise_multiplier=0.0), task.objective, device, None
        )
    return trainer_of(model, plan, task.objective, device, axes_of(model, task.objective, device))


def _people(shape: tuple[int, ...], most: int, persons: int) -> PersonData:
    generator = torch.Generator().manual_seed(0)
    count = persons * most
    x = torch.randint(0, 256, (count, *shape), generator=generator, dtype=torch.uint8)
    y = torch.randint(0, _CLASSES, (count,), generator=generator)
    owners = tuple(f"person {k // most}" for k in range(count))
    return PersonData(TensorData(x, y, tuple(map(str, range(_CLASSES))), groups=owners), most)


if __name__ == "__main__":
    main()
