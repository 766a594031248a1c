"""Random numbers are the same in every row, and how many were drawn does not show."""

import pytest
import torch
import torch.nn.functional as F

from fl_dp.engine.tracing.equal_rows import EqualRows


@pytest.mark.parametrize(
    "drawn",
    [
        lambda n: F.dropout(torch.arange(1.0, n + 1), 0.5),
        lambda n: torch.rand(n),
        lambda n: torch.randn(n, 3),
        lambda n: torch.rand_like(torch.ones(n)),
        lambda n: torch.empty(n).uniform_(2, 3),
        lambda n: torch.empty(n).normal_(),
        lambda n: torch.bernoulli(torch.full((n,), 0.5)),
        lambda n: torch.native_dropout(torch.arange(1.0, n + 1), 0.5, True)[0],
    ],
)
def test_the_first_rows_are_those_of_a_smaller_batch_and_the_generator_stays(drawn):
    torch.manual_seed(0)
    state = torch.get_rng_state()
    with EqualRows() as mode:
        assert torch.equal(drawn(17)[:5], drawn(5))
        assert torch.equal(drawn(17)[:1], drawn(1))
    assert not mode.unknown
    assert torch.equal(torch.get_rng_state(), state)


def test_a_single_number_is_drawn_as_ever():
    """A coin for the whole batch is the same for every row; it must fall as it does in training."""
    torch.manual_seed(0)
    expected = [float(torch.rand(())) for _ in range(3)]
    torch.manual_seed(0)
    with EqualRows():
        assert [float(torch.rand(())) for _ in range(3)] == expected


@pytest.mark.parametrize("drawn", [lambda: torch.randperm(5), lambda: torch.randint(0, 9, (5,))])
def test_operators_that_it_does_not_know_are_left_alone_and_named_unknown(drawn):
    torch.manual_seed(0)
    expected = drawn()
    torch.manual_seed(0)
    with EqualRows() as mode:
        assert torch.equal(drawn(), expected)
    assert mode.unknown
