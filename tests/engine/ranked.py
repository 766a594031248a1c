"""Ranks as real processes with gloo, forked from a process that has imported everything once."""

import itertools
import multiprocessing
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch._dynamo  # by the first step of an optimizer; once is enough
from torch import Tensor, nn
from torch import distributed as dist
from torch.utils.data import DataLoader, TensorDataset

from fl_dp import PoissonSampler, PrivacyEngine
from fl_dp.engine.noise.randomness import Randomness

KEY = bytes(range(1, 33))
RECORDS, EXPECTED, PHYSICAL, BOUND, LR = 200, 20, 4, 0.1, 0.5
_LIMIT = 120  # seconds: only ends what hangs


def on_ranks(size: int, work: Callable[..., Any], *args: Any) -> list[Any]:
    """What `work(rank, *args)` returns on each rank; for one that raised, its error's text.

    None for a process that ended without either.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["ranked"])
    path = os.pathsep.join(sys.path)  # Python 3.11's fork server does not get it
    with (
        mock.patch.dict(os.environ, PYTHONPATH=path, OMP_NUM_THREADS="1"),
        tempfile.TemporaryDirectory() as folder,
    ):
        started = []
        for rank in range(size):
            ours, theirs = context.Pipe()
            process = context.Process(target=_child, args=(theirs, folder, rank, size, work, args))
            process.start()
            theirs.close()
            started.append((process, ours))
        try:
            return [_result(ours) for _, ours in started]
        finally:
            for process, _ in started:
                process.join(_LIMIT)
                process.kill()


def _result(ours: Any) -> Any:
    assert ours.poll(_LIMIT), "a rank hangs"
    try:
        return ours.recv()
    except EOFError:
        return None


def _child(theirs: Any, folder: str, rank: int, size: int, work: Callable[..., Any], args: Any) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group(
        "gloo",
        init_method=f"file://{Path(folder) / 'store'}",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=30),
    )
    try:
        found = work(rank, *args)
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    theirs.send(found)
    theirs.close()
    os._exit(0)  # without the exit of a group whose other ranks may be gone


def small_model(dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).to(dtype)


def data(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(RECORDS, 6, generator=torch.Generator().manual_seed(1)).to(dtype)


def losses_of(model: nn.Module, inputs: Tensor) -> Tensor:
    return model(inputs).square().sum(1)


def fix_key() -> None:
    """Draw the secret bytes of this process one after the other from KEY."""
    numbers = itertools.count()
    system = classmethod(lambda cls: cls(KEY).child(next(numbers)))
    Randomness.system = system  # type: ignore[method-assign, assignment]


class Training:
    """Model, optimizer, engine, sampler and loader of one rank."""

    def __init__(
        self,
        dtype: torch.dtype = torch.float32,
        physical: int = PHYSICAL,
        expected: int = EXPECTED,
        lr: float = LR,
        **options: Any,
    ) -> None:
        self.model = small_model(dtype)
        self.optimizer: Any = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        given = {
            "noise_multiplier": 1.0,
            "max_grad_norm": BOUND,
            "ranks": "all",
            "accountant": "rdp",
            **options,
        }
        self.engine = PrivacyEngine(self.model, batch_size=expected, sample_size=RECORDS, **given)
        self.sampler = PoissonSampler(RECORDS, expected_batch_size=expected, physical_batch_size=physical)
        dataset = TensorDataset(torch.arange(RECORDS), data(dtype))
        self.loader = DataLoader(dataset, batch_sampler=self.sampler)

    def attach(self) -> None:
        self.engine.attach(self.optimizer, sampler=self.sampler)

    def steps(self, steps: int) -> list[list[list[int]]]:
        """Take them; returns the record numbers of this rank's passes, for each step."""
        taken: list[list[list[int]]] = []
        for batches in self.sampler.logical_batches(self.loader):
            taken.append([])
            for numbers, inputs in batches:
                self.optimizer.virtual_step(loss=losses_of(self.model, inputs))
                taken[-1].append(numbers.tolist())
            self.optimizer.step(loss=None)
            if len(taken) == steps:
                break
        return taken

    @property
    def weights(self) -> list[Any]:
        return [p.detach().numpy().copy() for p in self.model.parameters()]


def attached(**options: Any) -> Training:
    training = Training(**options)
    training.attach()
    return training
