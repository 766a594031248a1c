"""Histograms of a model's scores over test records: what one unit adds, and the cells of each record.

A vector of counts, in blocks. A record adds 1 to one cell of each block, or 1 to the last cell of the vector,
INVALID, and nothing else: if the model fails on it, gives numbers that are not finite, or a label that does
not exist. A sequence does so once for each of its places, a person once for each of its records that count.
What is released is the counts of each block times its weight, with equal noise on every number. Blocks form
up to three groups (all records; each class against the rest; subgroups), and n blocks of a group have the
weight 1 / sqrt(n): each group gets an equal share, and the first suffers little from the others.

What one unit can move. Let v be what one place of one record adds to the weighted counts. It has at most one
number in each block, the block's weight, or a single 1 in INVALID; so |v|^2 is at most the sum of the squared
weights of all blocks, which is the number of groups g. A unit has at most `cap` records of at most `places`
places, and by the triangle inequality adds at most

    cap * places * sqrt(g)

in Euclidean norm: a number of the layout, which is public, whatever the records are. This is the L2
sensitivity of the vector, where neighbouring data differ in one unit. It is reached if all its places have
the same score and label. Other units' cells do not depend on it: see `count`.

Bins are of the log-odds of a class, and public: quantiles of a logistic distribution of scale SCALE around 0.
So one edge lies where both classes are equally likely, there are more bins where most models' scores are, and
the last ones are open. Bins by the data's own quantiles would be read from the data.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fl_dp.config.site_metrics import BINS
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ENDS, ConfigError, ModelError
from fl_dp.form import Form
from fl_dp.tasks.task import Task

SCALE = 1.5
MOST_AGAINST_REST = 32  # classes with a block of their own; with more, only the score of the true class
TRUE_CLASS = -1
MOST_CELLS = 2**14  # a server draws a thousand samples of them

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the vector: (bins, 2), or for subgroups (labels, bins, 2); the last index is no or yes.

    of_class: the class whose score is binned; yes: it is the label. TRUE_CLASS: the score of the record's own
    class; yes: it is the largest. labels: full names of the subgroups ("sex = women"); empty: all records.
    weight: of its counts in what is released.
    """

    of_class: int
    shape: tuple[int, ...]
    labels: tuple[str, ...] = ()
    weight: float = 1.0

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Layout:
    """The vector's public shape.

    classes: at least 2. bins: of `BINS`. places: of a sequence, or 1. cap: records of a unit that count.
    subgroups: for each way to divide records, its full names ("sex = women"), as declared.

    | targets | blocks |
    |---|---|
    | two classes | the score of the second class: of all records, and for each way to divide them |
    | up to 32 | the score of the true class, and of each class; the true class for each way, in one bin |
    | more, and tokens | the score of the true class; the same for each way, in one bin |
    """

    classes: int
    bins: int
    tokens: bool = False
    places: int = 1
    cap: int = 1
    subgroups: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(cls, form: Form, bins: int, cap: int, subgroups: Sequence[Sequence[str]]) -> "Layout":
        """ConfigError for targets without classes, and for a vector that is too long."""
        if form.targets == "numbers" or form.outputs < 2:
            raise ConfigError(
                "site-metrics-every: the sites' metrics are made of scores of classes, and this task "
                f"predicts {form.outputs} {form.targets}. Measure on the server's test data, or set it to 0."
            )
        if bins not in BINS:
            raise ConfigError(f"site-metrics-bins = {bins}: expected {' or '.join(map(str, BINS))}.")
        tokens = form.targets == "tokens"
        places = math.prod(form.input_shape) if tokens else 1
        made = cls(form.outputs, bins, tokens, places, max(1, cap), tuple(map(tuple, subgroups)))
        if made.size > MOST_CELLS:
            raise ConfigError(f"site-metrics-bins: {made.size} cells, expected {MOST_CELLS} at most.")
        return made

    @property
    def binary(self) -> bool:
        return self.classes == 2 and not self.tokens

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        one, binary = (self.bins, 2), self.binary
        rest = self.classes if not binary and not self.tokens and self.classes <= MOST_AGAINST_REST else 0
        whose, bins = (1, self.bins) if binary else (TRUE_CLASS, 1)
        part = 1 / math.sqrt(max(1, len(self.subgroups)))
        return (
            Block(1 if binary else TRUE_CLASS, one),
            *(Block(number, one, weight=1 / math.sqrt(rest)) for number in range(rest)),
            *(Block(whose, (len(names), bins, 2), names, part) for names in self.subgroups),
        )

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where each block begins; at the end, the place of the INVALID cell."""
        return tuple(np.cumsum([0, *(block.size for block in self.blocks)]).tolist())

    @property
    def size(self) -> int:
        return self.starts[-1] + 1

    @property
    def sensitivity(self) -> float:
        """How far one unit moves the weighted counts at most, in Euclidean norm; see above."""
        return self.cap * self.places * math.sqrt(round(sum(block.weight**2 for block in self.blocks)))

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """(size,) by which the counts are multiplied before noise is added; that of INVALID is 1."""
        return np.concatenate([*(np.full(block.size, block.weight) for block in self.blocks), [1.0]])

    @cached_property
    def edges(self) -> NDArray[np.float64]:
        """(bins - 1,) log-odds."""
        shares = np.arange(1, self.bins) / self.bins
        return SCALE * np.log(shares / (1 - shares))

    @cached_property
    def middles(self) -> NDArray[np.float64]:
        """(bins,) the probability that stands for each bin: its middle on the same scale."""
        shares = (np.arange(self.bins) + 0.5) / self.bins
        return 1 / (1 + (shares / (1 - shares)) ** -SCALE)


def count(
    model: nn.Module,
    task: Task,
    records: TensorData | None,
    layout: Layout,
    passes: int,
    device: torch.device,
) -> Counts:
    """(layout.size,) the counts of the records, at most `passes`.

    Every record has a pass of its own, in evaluation mode, from the same random state, on a model that keeps
    nothing (`check_model`): so no record moves another's cell. Passes are as many as `passes`, a public
    number; those beyond the records are of made-up ones, which take about as long and count nothing. Buffers
    are restored before each pass, in case a model changes them for some records alone.
    """
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    counts, held = np.zeros(layout.size, np.int64), len(records) if records is not None else 0
    uncounted, labels = np.zeros_like(counts), np.zeros(layout.places, np.int64)
    if held > passes:
        raise ConfigError(f"{held} test records, expected at most {passes}, as declared.")
    divided = records.subgroups if records is not None and layout.subgroups else ()
    groups = [one.codes.numpy() for one in divided]
    for row in range(passes):
        for name, buffer in model.named_buffers():
            buffer.copy_(buffers[name])
        if records is None or row >= held:
            outputs = _outputs(model, task, _made_up(task.form), device)
            _add(uncounted, layout, outputs, labels, [0] * len(layout.subgroups))
            continue
        inputs, targets = records.batch(torch.tensor([row]))
        outputs = _outputs(model, task, inputs, device)
        _add(counts, layout, outputs, targets.numpy().reshape(-1), [int(one[row]) for one in groups])
    return counts


def check_model(model: nn.Module, task: Task, device: torch.device) -> None:
    """ModelError if a pass in evaluation mode changes the model, or the next one's outputs.

    Tried on made-up records: the same record before and after another one.
    """
    before = {name: value.clone() for name, value in model.state_dict().items()}
    other = _made_up(task.form) + (0 if task.form.vocabulary else 1)
    one, _, again = (
        _outputs(model, task, x, device) for x in (_made_up(task.form), other, _made_up(task.form))
    )
    same = all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    alike = one is again if one is None or again is None else np.array_equal(one, again)
    if not same or not alike:
        raise ModelError(
            "site-metrics-every: the model's outputs in evaluation mode depend on the records before, so "
            "that a record would move others' cells. Keep no state in forward, or set site-metrics-every = 0."
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


def _made_up(form: Form) -> Tensor:
    return torch.zeros(1, *form.input_shape, dtype=torch.int64 if form.vocabulary else torch.float32)


def _add(
    counts: Counts,
    layout: Layout,
    outputs: NDArray[np.float64] | None,
    targets: NDArray[np.int64],
    codes: Sequence[int],
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
        for start, block in zip(layout.starts, layout.blocks, strict=False):
            place = _place(block, layout, logits, target)
            if block.labels:
                place = (codes[layout.subgroups.index(block.labels)], *place)
            counts[start + np.ravel_multi_index(place, block.shape)] += 1


def _place(block: Block, layout: Layout, logits: NDArray[np.float64], target: int) -> tuple[int, ...]:
    """Bin, and no or yes, of a record with these logits (classes,)."""
    of_class = target if block.of_class == TRUE_CLASS else block.of_class
    yes = int(logits.argmax()) == target if block.of_class == TRUE_CLASS else of_class == target
    if block.shape[-2] == 1:
        return 0, int(yes)
    others = np.delete(logits, of_class)
    rest = others.max() + math.log(np.exp(others - others.max()).sum())
    return int(np.searchsorted(layout.edges, logits[of_class] - rest, side="right")), int(yes)
