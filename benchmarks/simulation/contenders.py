"""How each contender is started: fl_dp, Flower's simulation and pfl-research, on one of two tasks."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tomli_w
import torch

from benchmarks.simulation.federation import (
    FEDERATIONS,
    LEARNING_RATE,
    MAX_GRAD_NORM,
    NOISE_MULTIPLIER,
)
from benchmarks.simulation.watch import Command, NotMeasured, is_any, module
from fl_dp.config.data import DataSettings
from fl_dp.data.source import data_of
from fl_dp.errors import DataError
from fl_dp.launch.processes import cores, thread_settings

_ROOT = Path(__file__).parents[2]
_FLOWER_COPIES = 2.2  # of all replies, in the memory of Flower's driver: 10.6 GiB at 500 clients x 10 MB
_BUDGET = 50.0  # epsilon: not what ends a run of a few rounds


@dataclass(frozen=True, slots=True)
class Load:
    """A task without training: every client answers with as many bytes as it was sent."""

    clients: int
    model_bytes: int

    def __str__(self) -> str:
        return f"{self.clients} clients, {self.model_bytes / 1e6:g} MB"


@dataclass(frozen=True, slots=True)
class Place:
    """Where and for how long: an empty folder, rounds, torchvision's data sets, pfl-research's Python."""

    folder: Path
    rounds: int
    data_root: Path
    pfl_python: Path | None


def _flower_doing_nothing(load: Load, place: Place) -> Command:
    needed = _FLOWER_COPIES * load.clients * load.model_bytes
    if needed > available_bytes() / 2:  # the other half is for whoever else works here
        raise NotMeasured("skipped", f"its driver would need {needed / 2**30:.0f} GiB")
    sizes = ("--clients", load.clients, "--model-bytes", load.model_bytes)
    return _module("flower", place, "nothing", *sizes, "--at-once", cores())


def _ours_doing_nothing(load: Load, place: Place) -> Command:
    return _module("ours_nothing", place, "--clients", load.clients, "--model-bytes", load.model_bytes)


def _flower(client: str) -> Callable[[str, Place], Command]:
    def command(federation: str, place: Place) -> Command:
        data = ("--federation", federation, "--data-root", place.data_root)
        return _module("flower", place, client, *data, "--at-once", cores())

    return command


def _pfl(federation: str, place: Place) -> Command:
    if place.pfl_python is None:
        raise NotMeasured("not installed", "name the Python that has `pfl[pytorch]` by --pfl-python")
    try:
        settings = DataSettings(data=FEDERATIONS[federation].data, data_root=str(place.data_root))
        data = data_of(settings, "train")
    except DataError as error:
        raise NotMeasured("no data", str(error)) from error
    file, out = place.folder / "train.npz", place.folder / "run"
    np.savez(file, x=data.x.numpy(), y=data.y.numpy())
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(cores()))
    rest = (federation, "--data", file, "--rounds", place.rounds, "--out", out)
    command = module("pfl_research", *rest, python=(str(place.pfl_python), *launcher))
    environment = {**thread_settings(1), "PYTHONPATH": str(_ROOT), "PFL_PYTORCH_DEVICE": "cpu"}
    return Command(command, out, place.rounds, environment, trains=is_any)


def _module(name: str, place: Place, *arguments: object) -> Command:
    out = place.folder / "run"
    command = module(name, *arguments, "--rounds", place.rounds, "--out", out)
    return Command(command, out, place.rounds, _environment(place.folder))


def _environment(folder: Path) -> Mapping[str, str]:
    """Quiet, with folders of its own, one thread a process: Ray's actors inherit it."""
    return {
        **thread_settings(1),
        "PYTHONPATH": _python_path(),
        "FLWR_HOME": str(folder / "flwr"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "RAY_TMPDIR": str(folder),
        "RAY_USAGE_STATS_ENABLED": "0",
    }


def _python_path() -> str:
    """This tree's code first, whatever is installed."""
    return os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))


def ours(**settings: str | int) -> Callable[[str, Place], Command]:
    """The command line of fl_dp's users. settings: of the run config; on cores if they name no device."""

    def command(name: str, place: Place) -> Command:
        config, out = place.folder / "config.toml", place.folder / "run"
        values = {**_run_config(name, place), "device": "cpu", **settings}
        config.write_text(tomli_w.dumps(values), encoding="utf-8")
        arguments = ("--simulate", "--config", str(config), "--out", str(out))
        command = [sys.executable, "-P", "-m", "fl_dp", "run", *arguments]
        return Command(command, out, place.rounds, {"PYTHONPATH": _python_path()})

    return command


def _on_gpus(**settings: str | int) -> Callable[[str, Place], Command]:
    on_gpus = ours(device="cuda", **settings)

    def command(name: str, place: Place) -> Command:
        if not torch.cuda.is_available():
            raise NotMeasured("skipped", "this machine has no GPU that PyTorch can use")
        return on_gpus(name, place)

    return command


def _run_config(name: str, place: Place) -> dict[str, str | int | float]:
    federation = FEDERATIONS[name]
    return {
        "data": federation.data,
        "data-root": str(place.data_root.absolute()),
        "model": federation.model,
        "clients": federation.clients,
        "min-clients": federation.per_round,
        "fit-clients": federation.per_round,
        "rounds": place.rounds,
        "evaluate": "off",
        "local-epochs": 1,
        "expected-batch-size": federation.batch,
        "physical-batch-size": "auto",
        "learning-rate": LEARNING_RATE,
        "noise-multiplier": NOISE_MULTIPLIER,
        "max-grad-norm": MAX_GRAD_NORM,
        "epsilon": _BUDGET,
    }


OURS, OURS_NOT_PRIVATE, FLOWER = "fl_dp", "fl_dp without privacy", "Flower"
OURS_ON_GPUS, ONE_ON_GPU = "fl_dp on GPUs", "fl_dp on GPUs with one actor each"
FLOWER_OPACUS, FLOWER_SGD, PFL = "Flower + Opacus", "Flower + SGD", "pfl-research"

DOING_NOTHING: Mapping[str, Callable[[Load, Place], Command]] = {
    OURS: _ours_doing_nothing,
    FLOWER: _flower_doing_nothing,
}
TRAINING: Mapping[str, Callable[[str, Place], Command]] = {
    OURS: ours(),
    OURS_ON_GPUS: _on_gpus(),
    ONE_ON_GPU: _on_gpus(**{"clients-per-gpu": 1}),
    FLOWER_OPACUS: _flower("opacus"),
    OURS_NOT_PRIVATE: ours(privacy="off"),
    FLOWER_SGD: _flower("sgd"),
    PFL: _pfl,
}


def available_bytes() -> int:
    """MemAvailable of /proc/meminfo: what a process may take before others suffer."""
    lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
