"""The histogram of scores: each record in its cells, and no unit moves it further than the layout says."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError, ModelError
from fl_dp.form import Form
from fl_dp.tasks.score_histogram import BINS, BLOCK, EDGES, Layout, check_model, count
from fl_dp.tasks.task import Task

CPU = torch.device("cpu")


class Hostile(nn.Module):
    """Its first input picks what it does with a record: answer, fail, or give what is no number."""

    def forward(self, x):
        kind = float(x[0, 0])
        if kind == 7:
            raise ValueError("secret of a record")
        if kind == 8:
            return x[:, :1]
        return x[:, 1:] * (torch.inf if kind == 9 else 1.0)


def task_of(form):
    made = Task()
    made.form = form
    return made


def table(kinds, logits, labels):
    x = torch.cat([torch.tensor(kinds).float()[:, None], torch.tensor(logits).float()], 1)
    names = tuple(map(str, range(x.shape[1] - 1)))
    return TensorData(x, torch.tensor(labels), names)


def counted(layout, data, passes=None, form=None):
    form = form or data.form
    return count(Hostile().eval(), task_of(form), data, layout, passes or len(data), CPU)


def test_a_record_adds_one_to_the_cell_of_its_score_and_label():
    layout = Layout.of(Form((3,), 2), 1)
    shares = np.arange(1, 8) / 8
    assert pytest.approx(1.5 * np.log(shares / (1 - shares))) == EDGES
    found = counted(layout, table([0, 0, 0], [[0, 5], [0, -1], [0, -1]], [1, 0, 1]))
    expected = np.zeros((BINS, 2), int)
    expected[7, 1], expected[2, 0], expected[2, 1] = 1, 1, 1
    assert found[:-1].reshape(BINS, 2).tolist() == expected.tolist()
    assert layout.sensitivity == 1.0


def test_of_several_classes_each_stands_against_the_rest():
    layout = Layout.of(Form((4,), 3), 1)
    one = counted(layout, table([0], [[3.0, 0, 0]], [1]))
    blocks = one[:-1].reshape(-1, BINS, 2)
    assert [block.sum() for block in blocks] == [1] * 4
    low = np.searchsorted(EDGES, np.log(1 / (np.e**3 + 1)))  # log-odds of the true class
    assert blocks[0][low, 0] == 1  # and it is not the largest
    assert blocks[2][low, 1] == 1  # class 1, which is the label
    assert blocks[1][BINS - 2, 0] == 1
    assert layout.sensitivity == np.sqrt(2)  # all records, each against the rest
    assert np.linalg.norm(one * layout.weights) == pytest.approx(layout.sensitivity)
    assert layout.counts_of(2, one * layout.weights) == pytest.approx(blocks[2])


records = st.tuples(
    st.sampled_from([0, 0, 0, 7, 8, 9]),
    st.lists(st.floats(-(2.0**120), 2.0**120, width=32, allow_subnormal=False), min_size=3, max_size=3),
    st.integers(0, 2),
)


@given(st.lists(records, min_size=1, max_size=3), records, st.sampled_from([2, 3]))
def test_a_record_moves_no_more_than_its_own_cells_whatever_it_holds(others, new, classes):
    def of(rows):
        kinds, logits, labels = zip(*rows, strict=True)
        labels = [label % classes for label in labels]
        return table(kinds, [one[:classes] for one in logits], labels)

    layout = Layout.of(Form((classes + 1,), classes), 1)
    moved = counted(layout, of([*others, new]), passes=4) - counted(layout, of(others), passes=4)
    assert (moved >= 0).all()
    assert np.linalg.norm(moved * layout.weights) <= layout.sensitivity * (1 + 1e-12)
    if new[0] in (7, 8, 9) and not (new[0] == 9 and not np.isnan(new[1][:classes]).any()):
        assert moved[-1] == 1
    alone = counted(layout, of([new]), passes=4)
    assert (moved == alone).all()  # its cells do not depend on the others, nor theirs on it


def test_all_places_of_a_sequence_and_all_records_of_a_person_count_at_their_worst():
    layout = Layout.of(Form((5,), 3, "tokens", 3), 4)
    assert layout.sensitivity == 4 * 5

    class Next(nn.Module):
        def forward(self, x):
            return nn.functional.one_hot(x, 3).float() * 9

    x = torch.zeros(4, 5, dtype=torch.int64)
    data = TensorData(x, x.clone(), ("a", "b", "c"), 3)
    found = count(Next(), task_of(data.form), data, layout, 4, CPU)
    assert np.linalg.norm(found * layout.weights) == pytest.approx(
        layout.sensitivity
    )  # reached: all places in one cell
    skipped = x.clone()
    skipped[:, 1:] = -100  # no token counts there
    data = TensorData(x, skipped, ("a", "b", "c"), 3)
    assert count(Next(), task_of(data.form), data, layout, 4, CPU).sum() == 4


def test_passes_are_as_many_as_declared_however_many_records_there_are():
    seen = []

    class Watched(Hostile):
        def forward(self, x):
            seen.append(tuple(x.shape))
            return super().forward(x)

    layout = Layout.of(Form((3,), 2), 1)
    data = table([0, 7], [[0, 5], [0, 4]], [1, 1])
    for some in (data, None):
        seen.clear()
        count(Watched(), task_of(Form((3,), 2)), some, layout, 5, CPU)
        assert seen == [(1, 3)] * 5
    with pytest.raises(ConfigError, match="2 test records, expected at most 1, as declared"):
        counted(layout, data, passes=1)


def test_a_failed_device_is_no_records_fault():
    """After it all other records would count as invalid, too: one record would move them."""

    class Lost(nn.Module):
        def forward(self, x):
            raise torch.AcceleratorError("device-side assert")

    layout, data = Layout.of(Form((3,), 2), 1), table([0], [[0, 5]], [1])
    with pytest.raises(torch.AcceleratorError):
        count(Lost(), task_of(data.form), data, layout, 1, CPU)


def test_random_numbers_of_a_model_do_not_depend_on_the_records_before():
    class Noisy(nn.Module):
        def forward(self, x):
            return x[:, 1:] + torch.rand(1, 2) * (2 if x[0, 0] else 1)

    layout, task = Layout.of(Form((3,), 2), 1), task_of(Form((3,), 2))
    first, second = table([1], [[0, 0.3]], [1]), table([0], [[0, 0.1]], [1])
    both = TensorData(torch.cat([first.x, second.x]), torch.tensor([1, 1]), ("0", "1"))
    torch.manual_seed(1)
    apart = sum(count(Noisy(), task, one, layout, 1, CPU) for one in (first, second))
    torch.manual_seed(2)  # another process: a repeated question has the same answer
    assert (count(Noisy(), task, both, layout, 2, CPU) == apart).all()


def test_a_buffer_that_only_some_records_change_moves_no_other_cell():
    class Sometimes(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("moved", torch.zeros(1))

        def forward(self, x):
            out = x[:, 1:] + self.moved * torch.tensor([1.0, -1.0])
            if x[0, 0] > 7:  # no made-up record
                self.moved += 100.0
            return out

    form = Form((3,), 2)
    layout, x = Layout(2), torch.tensor([[9.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    both = TensorData(x, torch.tensor([0, 1, 0]), ("a", "b"))
    found = count(Sometimes().eval(), task_of(form), both, layout, 3, CPU)
    others = count(Sometimes().eval(), task_of(form), both.subset(torch.tensor([1, 2])), layout, 3, CPU)
    assert (found - others).sum() == np.abs(found - others).sum() == 1  # the first one's own cell


@pytest.mark.parametrize("kept", ["buffer", "attribute"])
def test_a_model_that_keeps_a_state_is_refused(kept):
    class Remembers(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(1))
            self.last = 0.0

        def forward(self, x):
            out = x[:, 1:] + self.last
            if kept == "buffer":
                self.seen += 1
            else:
                self.last = x.sum()
            return out

    with pytest.raises(ModelError, match="depend on earlier records"):
        check_model(Remembers().eval(), task_of(Form((3,), 2)), CPU)
    check_model(Hostile(), task_of(Form((3,), 2)), CPU)


def test_what_has_no_scores_of_classes_is_refused():
    with pytest.raises(ConfigError, match="site-metrics: the sites' metrics are made of scores of classes"):
        Layout.of(Form((3,), 4, "numbers"), 1)


def test_more_classes_than_blocks_leave_the_score_of_the_true_class():
    assert Layout.of(Form((3,), 33), 1).size == BLOCK + 1
    assert Layout.of(Form((3,), 32), 1).size == 33 * BLOCK + 1
