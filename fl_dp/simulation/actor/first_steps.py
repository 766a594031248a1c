"""The first steps of several clients in one pass: they all start from the same weights.

A step of a few small examples is mostly the time it takes to call each operator: the clipped sums of five
clients of 20 images of 28 x 28 pixels took 0.6 of the time, in one pass, that they take one by one.

Who takes it together is settled when a round begins, and does not depend on who trains whom: in passes of
other sizes sums are rounded otherwise, and a round that is repeated must give the same updates.
"""

from collections.abc import Sequence
from dataclasses import replace

from fl_dp.data.tensor_data import TensorData
from fl_dp.simulation.work import ClientWork
from fl_dp.training.private import PrivateTrainer

TOGETHER = 128  # examples in one pass: beyond that, hardly any time is won
_LITTLE_BYTES = 2**24  # of a step's tensors: where they are more, the time is their arithmetic
_ROOM = 0.8  # of the examples for the expected batches: Poisson draws may be larger
_SUMS_BYTES = 2**23  # of all clients' sums together, which wait until it is each one's turn
_SHARE = 8  # of the tasks that are left a group is at most 1 / _SHARE: all actors are to end together


def is_little(step_bytes: int) -> bool:
    """Whether clients should take their first steps together, if one client's step needs so much memory."""
    return step_bytes <= _LITTLE_BYTES


def grouped(
    tasks: Sequence[ClientWork], together: int, update_bytes: int
) -> tuple[list[ClientWork], list[list[ClientWork]]]:
    """The tasks of a round, longest first, and the groups of two or more that take their first step together.

    together: most examples of such a step. update_bytes: of one client's update.
    """
    waiting = sorted(tasks, key=lambda task: -task.records)
    ordered: list[ClientWork] = []
    groups: list[list[ClientWork]] = []
    while left := len(waiting) - len(ordered):
        most = min(_SUMS_BYTES // max(1, update_bytes), -(-left // _SHARE))
        group = _first_group(waiting[len(ordered) : len(ordered) + max(1, most)], together)
        if len(group) > 1:
            group = [replace(task, group=len(groups)) for task in group]
            groups.append(group)
        ordered += group
    return ordered, groups


def _first_group(tasks: list[ClientWork], together: int) -> list[ClientWork]:
    """Of the tasks as many, from the first on, as are one group."""
    room = _ROOM * together if tasks[0].plan.private else 0
    count = examples = 0
    for task in tasks:
        examples += task.plan.expected_batch_size
        if examples > room or _kind(task) != _kind(tasks[0]):
            break
        count += 1
    return tasks[: max(1, count)]


def _kind(task: ClientWork) -> tuple[object, ...]:
    """What must be the same for all: the model, and how an example's gradient is clipped."""
    return task.plan.private, task.plan.model, task.plan.max_grad_norm


def begin_together(clients: Sequence[tuple[PrivateTrainer, TensorData, float]], most: int) -> bool:
    """Let each trainer begin with a clipped sum from one pass; False if they draw more than `most` examples.

    clients: trainer, data and sample rate of each; the trainers are of one model, which holds the weights
    that all start from. Trainers for which that fails, or raises, are of no more use.
    """
    batches = [data.batch(trainer.draw(data, rate)) for trainer, data, rate in clients]
    if sum(len(labels) for _, labels in batches) > most:
        return False
    sums = clients[0][0].clipped_sums(batches)
    for (trainer, _, _), clipped in zip(clients, sums, strict=True):
        trainer.begin(clipped)
    return True
