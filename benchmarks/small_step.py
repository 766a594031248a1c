"""A private step of a small client over a plain one, as a simulation takes them, and what it cannot go below.

    python -m benchmarks.small_step --clock cpu

Both are steps of the trainers, of 20 records in the mean of 60: the private one with its Poisson draw, passes
of one public shape, clipping, and noise in integers; the plain one with 20 records. In turns, one thread,
memory kept from step to step as in the simulation's processes.

"replayed": the private step with its passes recorded, as a simulation's become that go on for a while.
"floor": a plain gradient of as many rows as the private step's passes have, and the noise; nothing else.
"""

import argparse
import statistics
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from benchmarks.markdown import table
from benchmarks.measure import CLOCKS
from benchmarks.options import Report, common_parser, publish
from fl_dp.config.task import TaskSettings
from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.noise.gaussian import add_gaussian_noise
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.models.build import build_model
from fl_dp.records import RoundPlan
from fl_dp.simulation.actor.process_memory import keep_freed_memory
from fl_dp.tasks.task import Task
from fl_dp.training.examples import axes_of
from fl_dp.training.private import PrivateTrainer
from fl_dp.training.recorder import Recorder
from fl_dp.training.rows import filled
from fl_dp.training.unprotected import UnprotectedTrainer

_SHAPE, _CLASSES, _RECORDS, _MEAN, _SETTLED = (1, 28, 28), 10, 60, 20, 20


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    publish(run(options), options)


def parser() -> argparse.ArgumentParser:
    parser = common_parser("benchmarks.small_step", __doc__)
    parser.add_argument("--models", type=lambda text: text.split(","), default=["tanh-cnn", "linear"])
    parser.add_argument("--turns", type=int, default=400)
    parser.add_argument("--rows", type=int, help="of each private pass; default: what a client would choose")
    return parser


def run(options: argparse.Namespace) -> Report:
    torch.set_num_threads(1)
    keep_freed_memory()
    rows, data = [], {}
    for name in options.models:
        found = _compared(name, options)
        data[name] = found
        rows.append(
            (name, *(f"{value:.2f}" if isinstance(value, float) else str(value) for value in found.values()))
        )
    return Report(table(("model", *data[options.models[0]]), rows, left=1), data)


def _compared(name: str, options: argparse.Namespace) -> dict[str, int | float]:
    """Medians: milliseconds of each, and the ratios of those of a turn to its plain step."""
    data, device = made_up(), torch.device(options.device)
    private, plain = private_trainer(name, data, device), _plain(name, data, device)
    rows = options.rows or private.choose_rows(2 * _MEAN)
    batch = data.batch(torch.arange(min(_MEAN, rows)))
    inputs, targets = filled(rows, batch)
    parameters = list(private._passes.parameters.values())
    clipped = private.clipped.sum_of_pass(batch, rows)
    replayed = private_trainer(name, data, device, Recorder(after=0.0))
    replayed.use_kernels(private.kernels)

    def gradient() -> Sequence[Tensor]:
        losses = private._passes.losses_of(inputs, targets)
        return torch.autograd.grad(losses.sum(), parameters)

    steps: dict[str, Callable[[], object]] = {
        "plain": lambda: plain.step(data, 0.0, 2 * _MEAN),
        "private": lambda: private.step(data, _MEAN / _RECORDS, rows),
        "replayed": lambda: replayed.step(data, _MEAN / _RECORDS, rows),
        "gradient": gradient,
        "noise": lambda: add_gaussian_noise(clipped, noise_multiplier=1.0, generator=Randomness.system()),
    }
    seconds: dict[str, list[float]] = {key: [] for key in steps}
    clock = CLOCKS[options.clock]
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    for _ in range(_SETTLED + options.turns):
        for key, step in steps.items():
            start = clock()
            step()
            wait()
            seconds[key].append(clock() - start)
    settled = {key: times[_SETTLED:] for key, times in seconds.items()}
    found: dict[str, int | float] = {"rows": rows}
    found |= {f"{key}, ms": 1e3 * statistics.median(times) for key, times in settled.items()}
    settled["floor"] = [sum(both) for both in zip(settled["gradient"], settled["noise"], strict=True)]
    for key in ("private", "replayed", "floor"):
        pairs = zip(settled[key], settled["plain"], strict=True)
        found[f"{key} / plain"] = statistics.median(one / plain for one, plain in pairs)
    return found


def private_trainer(
    name: str, data: TensorData, device: torch.device, recorder: Recorder | None = None
) -> PrivateTrainer:
    model, task = build_model(name, data.form, seed=0).to(device).train(), _task(data)
    axes = axes_of(model, task.objective, device)
    return PrivateTrainer(model, axes, _plan(name), task.objective, device=device, recorder=recorder)


def _plain(name: str, data: TensorData, device: torch.device) -> UnprotectedTrainer:
    model = build_model(name, data.form, seed=0).to(device).train()
    return UnprotectedTrainer(model, _plan(name, private=False), _task(data).objective, device=device)


def _plan(name: str, *, private: bool = True) -> RoundPlan:
    noise = 1.0 if private else 0.0
    return RoundPlan("small step", 1, name, 1, _MEAN, 0.01, 0.0, noise, 1.0, private=private)


def _task(data: TensorData) -> Task:
    task = Task(TaskSettings())
    task.form = data.form
    return task


def made_up(shape: tuple[int, ...] = _SHAPE) -> TensorData:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (_RECORDS, *shape), generator=generator, dtype=torch.uint8)
    y = torch.randint(0, _CLASSES, (_RECORDS,), generator=generator)
    return TensorData(x, y, tuple(map(str, range(_CLASSES))))


if __name__ == "__main__":
    main()
