"""Examples of random numbers for every kind of data, and losses by their definitions."""

import pytest
import torch
import torch.nn.functional as F
from objectives import objective_for

from fl_dp.form import Form
from fl_dp.training.losses import loss_of


@pytest.mark.parametrize(
    ("form", "inputs", "targets"),
    [
        (Form((1, 4, 4), 3), ((5, 1, 4, 4), torch.float32), ((5,), torch.int64)),
        (Form((128, 6), 2, "numbers"), ((5, 128, 6), torch.float32), ((5, 2), torch.float32)),
        (Form((3,), 1, "numbers"), ((5, 3), torch.float32), ((5,), torch.float32)),
        (Form((7,), 2, "class", 9), ((5, 7), torch.int64), ((5,), torch.int64)),
        (Form((7,), 9, "tokens", 9), ((5, 7), torch.int64), ((5, 7), torch.int64)),
    ],
)
def test_blank_examples_have_the_form(form, inputs, targets):
    x, y = objective_for(form, "mse" if form.targets == "numbers" else "cross-entropy").blank(5)
    assert (tuple(x.shape), x.dtype) == inputs
    assert (tuple(y.shape), y.dtype) == targets
    assert len(x.unique()) > 1
    if form.vocabulary:
        assert 0 <= x.min() <= x.max() < form.vocabulary


def test_the_next_tokens_loss_is_the_mean_over_the_places_that_count():
    outputs = torch.randn(2, 3, 5)
    targets = torch.tensor([[1, 4, -100], [-100, -100, -100]])
    found = loss_of("cross-entropy").per_example(outputs, targets)
    expected = F.cross_entropy(outputs[0, :2], targets[0, :2])
    torch.testing.assert_close(found, torch.stack([expected, torch.tensor(0.0)]))


def test_squared_error_and_several_labels_are_means_over_an_examples_numbers():
    outputs, targets = torch.randn(3, 2), torch.tensor([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    mse = loss_of("mse").per_example(outputs, targets)
    torch.testing.assert_close(mse, ((outputs - targets) ** 2).mean(1))
    bce = loss_of("bce").per_example(outputs, targets)
    expected = [F.binary_cross_entropy_with_logits(o, t) for o, t in zip(outputs, targets, strict=True)]
    torch.testing.assert_close(bce, torch.stack(expected))
    one = loss_of("mse").per_example(torch.tensor([[2.0], [3.0]]), torch.tensor([1.0, 1.0]))
    assert one.tolist() == [1.0, 4.0]
