"""An example gives the same wherever it stands and whoever else is there, dropout aside."""

import pytest
import torch
from structured import Called
from torch import Tensor, nn
from torch.nn import functional as F

from fl_dp.engine.tracing.harness import batch_of
from fl_dp.engine.tracing.independence import check_independence, check_places
from fl_dp.engine.tracing.synthetic import synthetic
from fl_dp.errors import ProbeError

BATCHES = [(2, 0, 1), (1,), (2, 1), (0, 2, 0, 1, 1), (1, 2, 2, 0, 1, 0, 0, 2, 1, 1, 0, 2, 2, 1, 0, 1, 2)]
TABLE = torch.linspace(-1.0, 1.0, 40)[:, None]


def _check(function, dtype: torch.dtype = torch.float32) -> None:
    model = Called(nn.Identity(), lambda _, x: function(x))
    batch = synthetic(batch_of((torch.randn(5, 4, dtype=dtype),), {}), truth=True)
    check_places(model, {}, batch, check_independence(model, {}, batch))


PLACE = {
    "a table": lambda x: x + TABLE[: len(x)],
    "the place itself": lambda x: x * torch.arange(len(x))[:, None],
    "every second": lambda x: torch.where(torch.arange(len(x))[:, None] % 2 == 0, x, -x),
    "the last": lambda x: torch.cat([x[:-1], 2 * x[-1:]]),
    "in one of two outputs": lambda x: (x, {"y": x + TABLE[: len(x)]}),
    "an integer": lambda x: (x, (x.argmax(1) + torch.arange(len(x)))),
    "a table of masks": lambda x: x * (TABLE[: len(x)] > -0.97),
    "beside dropout": lambda x: F.dropout(x, 0.5) + TABLE[: len(x)],
    "behind dropout of nearly all": lambda x: F.dropout(x + TABLE[: len(x)], 0.9),
    "where a path is dropped": lambda x: x + TABLE[: len(x)] * (1 - torch.ones(len(x), 1).bernoulli_(0.5)),
    "a rate that depends on the place": lambda x: x * torch.bernoulli((TABLE[: len(x)] + 1).expand(-1, 4)),
}
SIZE = {
    "odd or even": lambda x: x * (1 + len(x) % 2),
    "one": lambda x: x if len(x) > 1 else -x,
    "more than ten": lambda x: x if len(x) > 10 else -x,
    "a share": lambda x: x / len(x),
    "a little": lambda x: x * (1 + 0.01 * (len(x) > 4)),
    "a number beside": lambda x: (x, torch.tensor(float(len(x)))),
    "a rate": lambda x: F.dropout(x, 0.1 if len(x) > 10 else 0.4),
    "no row for one": lambda x: x.squeeze(0),
    "another output": lambda x: {"x": x, **({"y": x} if len(x) == 3 else {})},
}


@pytest.mark.parametrize("case", PLACE | SIZE)
def test_outputs_that_depend_on_place_or_size_are_refused(case):
    with pytest.raises(ProbeError, match="place in the batch, or on how many"):
        _check((PLACE | SIZE)[case])


RANDOM = {
    "dropout": lambda x: F.dropout(x, 0.5),
    "dropout of nearly all": lambda x: F.dropout(x, 0.95),
    "of channels": lambda x: F.dropout1d(x[:, :, None], 0.5),
    "flat": lambda x: F.dropout(x.flatten(), 0.5).view(x.shape),
    "the batch last": lambda x: F.dropout(x.T, 0.5).T,
    "example by example": lambda x: torch.stack([F.dropout(row, 0.5) for row in x]),
    "paths": lambda x: x + x.sin() * torch.empty(len(x), 1).bernoulli_(0.8),
    "one mask for all": lambda x: x * F.dropout(torch.ones_like(x[:1]), 0.3),
    "chances from data": lambda x: x * torch.bernoulli(x.sigmoid()),
    "a coin for all": lambda x: x * (1 + float(torch.bernoulli(torch.tensor(0.5)))),
}
PLAIN = {
    "nothing": lambda x: x,
    "all": lambda x: (x, {"n": torch.ones(2), "table": torch.ones(2 * len(x))}),
    "huge and tiny": lambda x: (x * 1e30, x * 1e-30),
    "infinite": lambda x: torch.where(x > 0, x, torch.inf),
}


@pytest.mark.parametrize("case", RANDOM | PLAIN)
def test_outputs_that_depend_on_random_numbers_alone_pass(case):
    _check((RANDOM | PLAIN)[case])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_other_sizes_may_round_otherwise(dtype):
    weights = [torch.randn(4 if i == 0 else 64, 64, dtype=dtype) / 8 for i in range(12)]

    def deep(x: Tensor) -> Tensor:
        for weight in weights:
            x = (x @ weight).sin()
        return x.float()

    _check(deep, dtype)


def test_a_batch_of_one_that_the_model_cannot_take_is_passed_over():
    _check(lambda x: F.group_norm(x[:, :1, None, None], 1) if len(x) == 1 else x)


def test_any_other_that_it_cannot_take_is_refused():
    with pytest.raises(ProbeError, match="raised IndexError on 17 synthetic examples"):
        _check(lambda x: x + x[:, :1] * TABLE[20 if len(x) < 10 else 99])
    with pytest.raises(ProbeError, match="on 17 synthetic examples"):
        _check(lambda x: x * torch.ones(10)[torch.arange(len(x)) * 0 + len(x) - 1][:, None])


def test_a_random_state_of_a_batch_of_another_size_is_refused():
    """Masks that come again are known, if the model kept the state of the generator that they came from."""
    states = {}

    def again(x: Tensor) -> Tensor:
        states.setdefault(len(x) == 3, []).append(torch.get_rng_state())
        if len(x) != 3:
            torch.set_rng_state(states[True][-1])
        return F.dropout(x, 0.5)

    with pytest.raises(ProbeError, match="generator of its own, or seeds"):
        _check(again)


@pytest.mark.parametrize("rows", BATCHES)
def test_every_batch_counts(rows):
    """A model that behaves otherwise in this one batch alone, as its order and its size show, is refused."""
    batch = synthetic(batch_of((torch.randn(5, 4),), {}), truth=True)
    odd = batch.rows(rows).args[0]
    model = Called(nn.Identity(), lambda _, x: -x if torch.equal(x, odd) else x)
    seen = check_independence(model, {}, batch)
    with pytest.raises(ProbeError, match=rf"place in the batch, .* \(seen with {len(rows)}\)"):
        check_places(model, {}, batch, seen)
