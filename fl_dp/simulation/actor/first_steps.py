"""The first steps of several clients in one pass, which is possible if all start from the same weights.

A step of a few small examples spends most of its time on operator calls. For five clients with 20 images of
28 x 28 pixels each, the clipped sums took 0.6 of the time in one pass that they take one by one.

The groups of clients that step together are fixed when a round begins, whichever actors train them. All their
passes have the same number of rows, whatever is drawn, because another shape may round differently.
"""

from collections.abc import Sequence
from dataclasses import replace

from fl_dp.data.persons import Examples
from fl_dp.simulation.work import ClientWork
from fl_dp.training.local_algorithm import has_own_models
from fl_dp.training.private import PrivateTrainer
from fl_dp.training.rows import most_rows, steady

TOGETHER = 128  # examples in one pass; more would save hardly any time
_LITTLE_BYTES = 2**24  # of a step's tensors; a larger step spends its time on arithmetic anyway
_ROOM = 0.8  # of TOGETHER, for the expected batches, because Poisson draws may be larger
_SUMS_BYTES = 2**23  # of a group's clipped sums, which are kept until each client is trained
_SHARE = 8  # a group is at most 1 / _SHARE of the remaining items, so that all actors end together


def is_little(step_bytes: int) -> bool:
    """Whether clients should take their first steps together, by the memory of one client's step."""
    return step_bytes <= _LITTLE_BYTES


def grouped(
    items: Sequence[ClientWork], together: int, update_bytes: int
) -> tuple[list[ClientWork], list[list[ClientWork]]]:
    """The items of a round, longest first, and the groups of two or more that take their first step together.

    together: most examples of such a step. update_bytes: of one client's update.
    """
    waiting = sorted(items, key=lambda item: -item.records)
    ordered: list[ClientWork] = []
    groups: list[list[ClientWork]] = []
    while left := len(waiting) - len(ordered):
        most = min(_SUMS_BYTES // max(1, update_bytes), -(-left // _SHARE))
        group = _first_group(waiting[len(ordered) : len(ordered) + max(1, most)], together)
        if len(group) > 1:
            group = [replace(item, group=len(groups)) for item in group]
            groups.append(group)
        ordered += group
    return ordered, groups


def _first_group(items: list[ClientWork], together: int) -> list[ClientWork]:
    """The first item and those after it that can step together with it."""
    plan = items[0].plan
    alike = not has_own_models(plan.local_algorithm, plan.personal)
    room = _ROOM * together if plan.private and not plan.one_by_one and alike else 0
    count = examples = 0
    for item in items:
        examples += item.plan.expected_batch_size
        if examples > room or _kind(item) != _kind(items[0]):
            break
        count += 1
    return items[: max(1, count)]


def _kind(item: ClientWork) -> tuple[object, ...]:
    """What all items of a group must share: the model, and how an example's gradient is clipped."""
    plan = item.plan
    return plan.private, plan.one_by_one, plan.model, plan.loss, plan.max_grad_norm, plan.precision


def begin_together(clients: Sequence[tuple[PrivateTrainer, Examples, float]], rows: int) -> None:
    """Let each trainer begin with a clipped sum from shared passes.

    clients: trainer, data and sample rate of each. rows: of each pass, whatever is drawn. All trainers share
    one model, which holds the weights that they start from.
    """
    # The one with the largest batch: what it adds in float32 is small enough for all.
    first = max((trainer for trainer, _, _ in clients), key=lambda trainer: trainer.most)
    rows = steady(rows, most_rows(first.device))
    draws = [trainer.examples(data, trainer.draw(data, rate)) for trainer, data, rate in clients]
    sums = [first.nothing() for _ in clients]
    masks = first.masks.child("together", *(trainer.masks.key for trainer, _, _ in clients))
    with masks.in_torch(first.device):
        for there in _passes([len(draw[0]) for draw in draws], rows):
            parts = [tuple(tensor[part] for tensor in draws[client]) for client, part in there]
            for (client, _), clipped in zip(there, first.clipped_or_none(parts, rows), strict=True):
                sums[client] = sums[client] + clipped
    for (trainer, _, _), clipped in zip(clients, sums, strict=True):
        trainer.begin(clipped)


def _passes(sizes: Sequence[int], rows: int) -> list[list[tuple[int, slice]]]:
    """The content of each pass of `rows` rows, with all examples in order: clients, and slices of theirs."""
    passes: list[list[tuple[int, slice]]] = []
    room = 0
    for client, size in enumerate(sizes):
        start = 0
        while start < size:
            if room == 0:
                passes.append([])
                room = rows
            end = min(size, start + room)
            passes[-1].append((client, slice(start, end)))
            room -= end - start
            start = end
    return passes
