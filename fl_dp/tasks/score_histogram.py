"""Histograms of a model's scores over test records: which cells a record adds to, and how much a unit adds.

The counts are a vector, in blocks. A record adds 1 to one cell of each block. If the model fails on it, gives
numbers that are not finite, or the label does not exist, it adds 1 to the vector's last cell, INVALID, and
nothing else. A sequence does so once for each of its places, a person once for each of its records that
count. The counts of each block are released times the block's weight, with equal noise on every number.
Blocks form up to two groups (all records; each class against the rest). The n blocks of a group have the
weight 1 / sqrt(n), so that each group gets an equal share, and the second costs the first little.

What one unit can move. Let v be what one place of one record adds to the weighted counts. It has at most one
number in each block, the block's weight, or a single 1 in INVALID; so |v|^2 is at most the sum of the squared
weights of all blocks, which is the number of groups g. A unit has at most `cap` records of at most `places`
places, and by the triangle inequality adds at most

    cap * places * sqrt(g)

in Euclidean norm: a number that depends only on the layout, which is public. This is the L2 sensitivity of
the vector, if neighbouring data differ in one unit. It is reached if all places have the same score and
label. The cells of other units do not depend on the unit: see `count`.

Bins are of the log-odds of a class, and public: quantiles of a logistic distribution of scale SCALE around 0.
So one edge lies where both classes are equally likely, there are more bins where most models' scores are, and
the last ones are open. Bins by the data's own quantiles would be read from the data.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ENDS, ConfigError, ModelError
from fl_dp.form import Form
from fl_dp.models.build import blank_inputs
from fl_dp.tasks.task import Task

BINS = 8  # of the scores: even, so that one edge is where the two classes are equally likely
SCALE = 1.5
MOST_AGAINST_REST = 32  # classes with a block of their own; with more, only the score of the true class
TRUE_CLASS = -1
BLOCK = 2 * BINS  # cells of a block

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the vector: (BINS, 2); the last index is no or yes.

    of_class: the class whose score is binned; yes: it is the label. TRUE_CLASS: the score of the record's own
    class; yes: it is the largest. weight: of its counts in what is released.
    """

    of_class: int
    weight: float = 1.0


@dataclass(frozen=True)
class Layout:
    """The vector's public shape.

    classes: at least 2. places: of a sequence, or 1. cap: records of a unit that count.

    | targets | blocks |
    |---|---|
    | two classes | the score of the second class |
    | up to 32 | the score of the true class, and of each class |
    | more, and tokens | the score of the true class |
    """

    classes: int
    tokens: bool = False
    places: int = 1
    cap: int = 1

    @classmethod
    def of(cls, form: Form, cap: int) -> "Layout":
        """ConfigError for targets without classes."""
        if form.targets == "numbers" or form.outputs < 2:
            raise ConfigError(
                "site-metrics: the sites' metrics are made of scores of classes, and this task predicts "
                f"{form.outputs} {form.targets}. Measure on the server's test data, or set it to false."
            )
        tokens = form.targets == "tokens"
        places = math.prod(form.input_shape) if tokens else 1
        return cls(form.outputs, tokens, places, max(1, cap))

    @property
    def binary(self) -> bool:
        return self.classes == 2 and not self.tokens

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        if self.binary:
            return (Block(1),)
        rest = 0 if self.tokens or self.classes > MOST_AGAINST_REST else self.classes
        return Block(TRUE_CLASS), *(Block(number, 1 / math.sqrt(rest)) for number in range(rest))

    @property
    def size(self) -> int:
        """The length of the vector: a block after the other, and the INVALID cell."""
        return len(self.blocks) * BLOCK + 1

    def counts_of(self, place: int, cells: NDArray[np.float64]) -> NDArray[np.float64]:
        """(BINS, 2) what the block at that place of `blocks` has counted, without its weight."""
        counts = cells[place * BLOCK : (place + 1) * BLOCK].reshape(BINS, 2)
        return counts / self.blocks[place].weight

    @property
    def sensitivity(self) -> float:
        """How far one unit moves the weighted counts at most, in Euclidean norm; see above."""
        return self.cap * self.places * math.sqrt(round(sum(block.weight**2 for block in self.blocks)))

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """(size,) by which the counts are multiplied before noise is added; that of INVALID is 1."""
        return np.append(np.repeat([block.weight for block in self.blocks], BLOCK), 1.0)


def edges_of(bins: int) -> NDArray[np.float64]:
    """(bins - 1,) log-odds between so many bins."""
    shares = np.arange(1, bins) / bins
    return SCALE * np.log(shares / (1 - shares))


EDGES = edges_of(BINS)
_CENTRES = (np.arange(BINS) + 0.5) / BINS
# (BINS,) the probability that stands for each bin: its middle on the same scale
MIDDLES: NDArray[np.float64] = 1 / (1 + (_CENTRES / (1 - _CENTRES)) ** -SCALE)


def count(
    model: nn.Module,
    task: Task,
    records: TensorData | None,
    layout: Layout,
    passes: int,
    device: torch.device,
) -> Counts:
    """(layout.size,) the counts of the records, of which there are at most `passes`.

    Every record has its own pass, in evaluation mode, from the same random state, on a model that keeps no
    state (`check_model`): so no record moves another's cell. There are always `passes` passes, a public
    number; the rest run on blank records, take about as long, and count nothing. Buffers are restored before
    each pass, in case a model changes them for some records only.
    """
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    counts, held = np.zeros(layout.size, np.int64), len(records) if records is not None else 0
    uncounted, labels = np.zeros_like(counts), np.zeros(layout.places, np.int64)
    if held > passes:
        raise ConfigError(f"{held} test records, expected at most {passes}, as declared.")
    for row in range(passes):
        for name, buffer in model.named_buffers():
            buffer.copy_(buffers[name])
        if records is None or row >= held:
            outputs = _outputs(model, task, blank_inputs(task.form, 1), device)
            _add(uncounted, layout, outputs, labels)
            continue
        inputs, targets = records.batch(torch.tensor([row]))
        outputs = _outputs(model, task, inputs, device)
        _add(counts, layout, outputs, targets.numpy().reshape(-1))
    return counts


def check_model(model: nn.Module, task: Task, device: torch.device) -> None:
    """ModelError if a pass in evaluation mode changes the model, or the next one's outputs.

    Tried on made-up records: the same record before and after another one.
    """
    before = {name: value.clone() for name, value in model.state_dict().items()}
    blank = blank_inputs(task.form, 1)
    other = blank + (0 if task.form.vocabulary else 1)
    one, _, again = (_outputs(model, task, x.clone(), device) for x in (blank, other, blank))
    same = all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    alike = one is again if one is None or again is None else np.array_equal(one, again)
    if not same or not alike:
        raise ModelError(
            "site-metrics: the model's outputs in evaluation mode depend on earlier records, so a record "
            "would move others' cells. Keep no state in forward, or set site-metrics = false."
        )


@torch.no_grad()
def _outputs(
    model: nn.Module, task: Task, inputs: Tensor, device: torch.device
) -> NDArray[np.float64] | None:
    """(places, classes) logits; None if the model fails on this record, whatever it raises."""
    with torch.random.fork_rng(devices=[] if device.type == "cpu" else [device]):
        torch.manual_seed(0)
        try:
            found = task.outputs(model, inputs.to(device))
            return found[0].double().cpu().numpy().reshape(-1, found.shape[-1])
        except BaseException as error:
            # after a device's failure other records would fail, too, and move from their cells
            if isinstance(error, (*ENDS, torch.AcceleratorError)):
                raise
            return None


def _add(
    counts: Counts,
    layout: Layout,
    outputs: NDArray[np.float64] | None,
    targets: NDArray[np.int64],
) -> None:
    """Add one record. targets (places,): a negative one of a token does not count."""
    if layout.tokens:
        keep = targets >= 0
        outputs = outputs[keep] if outputs is not None and len(outputs) == len(keep) else None
        targets = targets[keep]
    targets = targets[: layout.places]  # a longer sequence has no place in the layout
    if outputs is None or outputs.shape != (len(targets), layout.classes):
        counts[-1] += len(targets)
        return
    for logits, target in zip(outputs, targets.tolist(), strict=True):
        if not np.isfinite(logits).all() or not 0 <= target < layout.classes:
            counts[-1] += 1
            continue
        for place, block in enumerate(layout.blocks):
            counts[place * BLOCK + _cell(block, logits, target)] += 1


def _cell(block: Block, logits: NDArray[np.float64], target: int) -> int:
    """The cell of its block to which a record with these logits (classes,) adds 1: bin, and no or yes."""
    of_class = target if block.of_class == TRUE_CLASS else block.of_class
    yes = int(logits.argmax()) == target if block.of_class == TRUE_CLASS else of_class == target
    others = np.delete(logits, of_class)
    rest = others.max() + math.log(np.exp(others - others.max()).sum())
    return 2 * int(np.searchsorted(EDGES, logits[of_class] - rest, side="right")) + int(yes)
