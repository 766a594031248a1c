"""What tests of ranks do in each of their processes (`ranked.py`)."""

import os
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from ranked import LR, RECORDS, Training, attached, data, fix_key, losses_of
from torch import distributed as dist
from torch.utils.data import DataLoader, TensorDataset

from fl_dp.engine.noise.grid import MOST_MULTIPLE
from fl_dp.errors import FlDpError
from fl_dp.privacy_engine import ranks


def train(rank: int, options: dict[str, Any], steps: int = 3) -> dict[str, Any]:
    """Some steps; the key of rank 0 is fixed."""
    if rank == 0:
        fix_key()
    training = attached(**options)
    passes = training.steps(steps)
    return {
        "weights": training.weights,
        "passes": passes,
        "spent": training.engine.get_privacy_spent(),
        "stats": training.engine.get_training_stats(),
    }


def charged_passes(rank: int) -> tuple[float, int]:
    """The deviation of the noise of a step, and the number of passes whose rounding it covers."""
    training = attached()
    own: Any = training.engine._ranks
    return own._grid.deviation, MOST_MULTIPLE // own._grid.cut


def watch_exchanges(rank: int) -> dict[str, list[Any]]:
    """The exchanges of two steps: their names, and what was in this rank's tensors in the end, after each
    reduction, and before and after each broadcast.
    """
    seen: list[tuple[str, torch.Tensor]] = []
    reduced, before, released = [], [], []

    def watched(name: str) -> Callable[..., Any]:
        usual = getattr(dist, name)

        def exchange(*args: Any, **kwargs: Any) -> None:
            if name == "broadcast":
                before.append(args[0].tolist())
            usual(*args, **kwargs)
            seen.append((name, args[0]))
            (reduced if name == "reduce" else released).append(args[0].tolist())

        return exchange

    training = Training()
    for name in ("reduce", "broadcast"):
        setattr(dist, name, watched(name))
    training.attach()
    training.steps(2)
    names, left = [name for name, _ in seen], [one.tolist() for _, one in seen]
    return {"names": names, "left": left, "reduced": reduced, "before": before, "released": released}


def end_early(rank: int, where: str) -> dict[str, Any]:
    """Rank 1 ends or waits at a place of the second step; rank 0 tells how it goes on."""
    ranks.TIMEOUT = timedelta(seconds=2 if where == "waits" else 60)
    training = attached()
    training.steps(1)
    weights = training.weights
    if rank == 1:
        if where == "between reduce and broadcast":
            dist.broadcast = lambda *_, **__: os._exit(1)
        elif where == "in the step":
            dist.reduce = lambda *_, **__: os._exit(1)
        elif where == "waits":
            time.sleep(5)
            return {}
        else:
            os._exit(1)
    errors = []
    for _ in range(2):
        try:
            training.steps(1)
        except FlDpError as error:
            errors.append(f"{type(error).__name__}: {error}")
    same = all((one == other).all() for one, other in zip(weights, training.weights, strict=True))
    return {"errors": errors, "same": same, "steps": training.engine.steps}


def refused(call: Callable[[], object]) -> str | None:
    try:
        call()
    except FlDpError as error:
        return f"{type(error).__name__}: {error}"
    return None


def differ_from_the_start(rank: int) -> dict[str, str | None]:
    """Attach where rank 1 has another engine, model, optimizer or sampler."""

    def other_weights() -> None:
        training = Training()
        with torch.no_grad():
            training.model[0].weight[0, 0] += rank  # type: ignore[index, operator]
        training.attach()

    def other_threads() -> None:
        torch.set_num_threads(1 + rank)
        try:
            attached()
        finally:
            torch.set_num_threads(1)

    def other_precision() -> None:
        conv = torch.backends.mkldnn.conv  # type: ignore[attr-defined]
        before, conv.fp32_precision = conv.fp32_precision, "bf16" if rank else "ieee"
        try:
            attached()
        finally:
            conv.fp32_precision = before

    def other_steps() -> None:
        training = Training()
        if rank == 1:
            training.sampler.load_state_dict({**training.sampler.state_dict(), "steps": 1})
        training.attach()

    return {
        "bound": refused(lambda: attached(max_grad_norm=0.1 + rank)),
        "multiplier": refused(lambda: attached(noise_multiplier=1.0 + rank)),
        "kernels": refused(lambda: attached(ghost_clipping=bool(rank))),
        "type": refused(lambda: attached(dtype=torch.float64 if rank else torch.float32)),
        "weights": refused(other_weights),
        "threads": refused(other_threads),
        "precision": refused(other_precision),
        "physical": refused(lambda: attached(physical=4 + rank)),
        "position": refused(other_steps),
        "rate": refused(lambda: attached(lr=LR + rank)),
        "none": refused(attached),
    }


class Augmented(TensorDataset):
    """Other numbers in each call."""

    def __getitem__(self, number: int) -> tuple[torch.Tensor, ...]:
        index, inputs = super().__getitem__(number)
        return index, inputs + torch.randn(6)


def shards(rank: int) -> list[Any]:
    """What a step says where each rank has its own records; records that are random; and those of all."""
    found = []
    for dataset in (
        TensorDataset(torch.arange(RECORDS), data() + rank),
        Augmented(torch.arange(RECORDS), data()),
        TensorDataset(torch.arange(RECORDS), data()),
    ):
        training = Training()
        training.loader = DataLoader(dataset, batch_sampler=training.sampler)
        training.attach()
        error = refused(lambda now=training: now.steps(1))  # type: ignore[misc]
        training.engine.detach()
        told = [one.name for one in training.engine.get_privacy_spent().assumed]
        found.append((error, training.engine.steps, "records of ranks" in told))
    return found


def differ_later(rank: int) -> list[Any]:
    """Change one thing on rank 1 before each second step; returns errors, steps, and whether weights are."""
    found: list[Any] = []

    def change_rate(training: Training) -> None:
        training.optimizer.param_groups[0]["lr"] = 0.25

    def change_weight(training: Training) -> None:
        with torch.no_grad():
            training.model[2].bias[0] += 1e-3  # type: ignore[index, operator]

    def change_mode(training: Training) -> None:
        training.model.eval()

    def leave_out_a_pass(training: Training) -> None:
        usual, passes = training.optimizer.virtual_step, []

        def virtual_step(loss: Any) -> None:
            passes.append(loss)
            if len(passes) > 1:
                usual(loss=loss)

        training.optimizer.virtual_step = virtual_step

    def cut_a_pass(training: Training) -> None:
        usual = training.optimizer.virtual_step

        def virtual_step(loss: Any) -> None:
            usual(loss=loss[:1])
            usual(loss=losses_of(training.model, torch.zeros(len(loss) - 1, 6)))

        training.optimizer.virtual_step = virtual_step

    for change in (change_rate, change_weight, change_mode, leave_out_a_pass, cut_a_pass):
        training = attached()
        training.steps(1)
        if rank == 1:
            change(training)
        before = training.weights
        error = refused(lambda training=training: training.steps(1))  # type: ignore[misc]
        same = all((one == other).all() for one, other in zip(before, training.weights, strict=True))
        found.append((change.__name__, error, training.engine.steps, same))
    return found


def continue_from_a_state(rank: int) -> dict[str, Any]:
    """Two steps, then one by another engine that loads their state; the sampler's is loaded after attach."""
    first = attached()
    passes = first.steps(2)
    saved = {name: getattr(first, name).state_dict() for name in ("model", "optimizer", "engine", "sampler")}
    second = Training()
    second.model.load_state_dict(saved["model"])
    second.optimizer.load_state_dict(saved["optimizer"])
    second.engine.load_state_dict(saved["engine"])
    second.attach()
    second.sampler.load_state_dict(saved["sampler"])
    passes += second.steps(1)
    return {"spent": second.engine.get_privacy_spent(), "weights": second.weights, "passes": passes}


def masks(rank: int) -> list[float]:
    """A rank's random numbers after attach, with the same seed on all."""
    training = Training()
    torch.manual_seed(0)
    training.attach()
    return torch.rand(4).tolist()


def draw_too_many(rank: int) -> tuple[str | None, int]:
    """A step of more records than were foreseen."""
    training = Training()
    training.attach()
    training.engine._ranks._most = 5
    return refused(lambda: training.steps(1)), training.engine.steps


def refusals(rank: int) -> list[str | None]:
    """What ranks= cannot be combined with; the last may be."""

    def saved_within_a_batch() -> None:
        training = attached()
        for batches in training.sampler.logical_batches(training.loader):
            for _, inputs in batches:
                training.optimizer.virtual_step(loss=losses_of(training.model, inputs))
                training.engine.state_dict()

    def without_sampler() -> None:
        training = Training()
        training.engine.attach(training.optimizer)

    return [
        refused(lambda: Training(generator=torch.Generator())),
        refused(lambda: Training(ranks="some")),
        refused(without_sampler),
        refused(lambda: attached(noise_multiplier=0).steps(1)),
        refused(saved_within_a_batch),
        refused(lambda: attached(ranks=dist.new_group()).steps(1)),
    ]
