"""Synthetic examples have the shapes and types of real ones, and nothing of their values."""

import pytest
import torch

from fl_dp.engine.tracing.harness import batch_of
from fl_dp.engine.tracing.synthetic import NUM_EXAMPLES, synthetic
from fl_dp.errors import ModelError


def _made(*args, truth=True, lengths=False, **kwargs):
    return synthetic(batch_of(args, kwargs), truth, lengths)


@pytest.mark.parametrize("size", [0, 1, 2, 7])
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool]
)
def test_every_tensor_as_long_as_the_first_gets_three_examples(size, dtype):
    batch = _made(torch.zeros(size, 4, dtype=dtype), {"x": torch.zeros(size, dtype=dtype)})
    assert batch.args[0].shape == (NUM_EXAMPLES, 4)
    assert batch.args[1]["x"].shape == (NUM_EXAMPLES,)
    assert {batch.args[0].dtype, batch.args[1]["x"].dtype} == {dtype}


def test_other_tensors_and_other_values_are_passed_on():
    mask, scale = torch.ones(4, 4).tril(), torch.tensor(2.0)
    batch = _made(torch.randn(7, 4), mask, scale, None, flag=True, name="x")
    assert batch.args[1] is mask
    assert batch.args[2] is scale
    assert batch.args[3] is None
    assert batch.kwargs == {"flag": True, "name": "x"}


@pytest.mark.parametrize("truth", [True, False])
def test_masks_leave_something_in_and_something_out(truth):
    batch = _made(torch.zeros(7, 4, dtype=torch.bool), truth=truth)
    mask = batch.args[0]
    assert mask[:, 0].eq(truth).all()
    assert mask[:, 1].ne(truth).all()
    assert batch.with_other(2).batch.args[0][:, 0].eq(truth).all()


def test_another_example_changes_one_example_only():
    words, flags = torch.ones(7, 5, dtype=torch.int64), torch.zeros(7, dtype=torch.bool)
    batch = _made(torch.randn(7, 4), words, flags, torch.ones(3))
    other = batch.with_other(1).batch
    for before, after in zip(batch.args[:3], other.args[:3], strict=True):
        assert torch.equal(before[[0, 2]], after[[0, 2]])
        assert not torch.equal(before[1], after[1])
    assert other.args[3] is batch.args[3]


def test_integers_are_zero_or_one():
    batch = _made(torch.full((7, 50), 1000))
    for each in (batch, batch.with_other(0).batch):
        assert set(each.args[0].unique().tolist()) == {0, 1}


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 0, 1)])
def test_dimensions_lie_in_memory_as_those_of_real_inputs(order):
    """nn.Linear takes other operators for transposed inputs, in which other rows are an example's."""
    batch = _made(torch.zeros(7, 6, 5).permute(order))
    lies = sorted(range(3), key=batch.args[0].stride, reverse=True)
    assert [order[dim] for dim in lies] == [0, 1, 2]


def test_a_call_without_examples_is_refused():
    with pytest.raises(ModelError, match="without a tensor that could hold examples"):
        _made(torch.tensor(1.0), flag=True)


@pytest.mark.parametrize("truth", [True, False])
def test_vectors_of_lengths_and_flags_are_alike_in_all_examples(truth):
    batch = _made(torch.full((7,), 9), torch.zeros(7, dtype=torch.bool), truth=truth)
    assert batch.args[0].tolist() == [1, 1, 1]
    assert batch.args[1].tolist() == [truth] * 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_another_example_is_drawn_anew_and_is_no_function_of_the_first(dtype):
    batch = _made(torch.randn(7, 400, dtype=dtype))
    before, after = batch.args[0], batch.with_other(1).batch.args[0]
    assert before.dtype == after.dtype == dtype
    together = (before[1] * after[1].conj()).real
    assert abs(float(together.mean())) < 6 * float(together.std()) / 20


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float32])
@pytest.mark.parametrize("shape", [(7, 1), (7, 4, 1), (7,), (7, 2)])
def test_another_example_differs_whatever_its_shape(shape, dtype):
    """One that stayed as it is could not show that it moves others."""
    batch = _made(torch.zeros(shape, dtype=dtype))
    for example in range(NUM_EXAMPLES):
        other = batch.with_other(example).batch.args[0]
        assert not torch.equal(batch.args[0][example], other[example])


def test_rows_are_the_same_examples_as_often_and_in_the_order_that_is_asked_for():
    mask = torch.ones(4, 4)
    batch = _made(torch.randn(7, 4), mask, y={"flags": torch.zeros(7, dtype=torch.bool)})
    other = batch.rows((2, 0, 2, 1))
    assert (batch.size, other.size) == (3, 4)
    assert torch.equal(other.args[0], batch.args[0][[2, 0, 2, 1]])
    assert other.args[1] is mask
    assert other.kwargs["y"]["flags"].shape == (4,)
    assert batch.with_other(1).batch.size == 3


def test_lengths_are_never_zero_and_differ():
    flags = torch.zeros(7, dtype=torch.bool)
    batch = _made(torch.zeros(7, 4), torch.ones(7, dtype=torch.int32), flags, lengths=True)
    assert batch.args[1].tolist() == [2, 1, 1]
    assert batch.args[1].dtype == torch.int32
    assert batch.with_other(0).batch.args[1].tolist() == [1, 1, 1]
    assert batch.with_other(2).batch.args[1].tolist() == [2, 1, 2]
    assert batch.args[2].all()
