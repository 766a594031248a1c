"""Mixing is found in the losses, honest losses are left alone, and looking changes nothing."""

import copy
from collections import UserDict

import pytest
import torch
import torch.nn.functional as F
from structured import Called
from torch import nn

from fl_dp.engine.tracing.mixing import MixingWatch, find_mixing
from fl_dp.errors import ModelError, ProbeError


def _mlp(*inside, dtype=torch.float32):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), *inside, nn.Linear(8, 3)).to(dtype)


def _batch(n=12, dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(n, 6, generator=generator).to(dtype)
    return x, torch.randint(0, 3, (n,), generator=generator)


def _of(model):
    return lambda x, y: F.cross_entropy(model(x), y, reduction="none")


PLAIN, DROPOUT = _of(_mlp()), _of(_mlp(nn.Dropout(0.5)))


def _honest():
    words = torch.randint(0, 30, (12, 5), generator=torch.Generator().manual_seed(2))
    layers = nn.ModuleList([nn.Embedding(30, 8), nn.TransformerEncoderLayer(8, 2, 16, 0.3, batch_first=True)])
    text = Called(layers, lambda m, words: m[1](m[0](words)).mean(1))
    return {
        "plain": (_of(_mlp()), _batch()),
        "dropout": (_of(_mlp(nn.Dropout(0.5))), _batch()),
        "layer norm": (_of(_mlp(nn.LayerNorm(8))), _batch()),
        "batch norm in evaluation": (_of(_mlp(nn.BatchNorm1d(8)).eval()), _batch()),
        "bfloat16": (_of(_mlp(dtype=torch.bfloat16)), _batch(64, torch.bfloat16)),
        "attention with dropout": (_of(text), (words, _batch()[1])),
        "masks on the inputs": (lambda x, y: PLAIN(F.dropout(x, 0.2), y), _batch()),
        "a mapping": (lambda b: PLAIN(b["x"], b["y"]), (dict(zip("xy", _batch(), strict=True)),)),
        "losses that are not finite": (lambda x, y: x[:, 0] / (x[:, 0] > 0), _batch()),
        "losses of zero": (lambda x, y: x[:, 0] * 0, _batch()),
        "two examples": (_of(_mlp()), _batch(2)),
    }


@pytest.mark.parametrize("thorough", [False, True])
@pytest.mark.parametrize("case", _honest())
def test_honest_losses_are_left_alone(case, thorough):
    losses_of, batch = _honest()[case]
    for _ in range(1 if thorough else 20):
        assert find_mixing(losses_of, *batch, thorough=thorough) is None


def _neighbour(x, y):
    """The last example looks at the first one, and nobody else does."""
    losses = PLAIN(x, y)
    return torch.cat([losses[:-1], losses[-1:] + losses[:1].detach()])


MIXING = {
    "the mean": (lambda x, y: x[:, 0] - x[:, 0].mean().detach(), "replaced"),
    "a neighbour": (_neighbour, "replaced"),
    "the labels of others": (lambda x, y: x[:, 0] * y.sum(), "moved when"),  # copies may have the same label
    "batch norm": (_of(_mlp(nn.BatchNorm1d(8, track_running_stats=False))), "replaced"),
    "random numbers, as many as data want": (_of(_mlp(nn.RReLU())), "replaced"),
    "the size": (lambda x, y: x[:, 0] / len(x), "left out"),
    "the parity of the size": (lambda x, y: x[:, 0] * (1 + len(x) % 2), "left out"),
    "the position": (lambda x, y: x[:, 0] * torch.arange(1, len(x) + 1), "left out"),
    "the size, beside dropout": (lambda x, y: DROPOUT(x, y) / len(x), "left out"),
    "the size, beside dropout of a GPU": (
        lambda x, y: torch.native_dropout(x, 0.5, True)[0].sum(1) / len(x),
        "left out",
    ),
}


@pytest.mark.parametrize("case", MIXING)
def test_mixing_is_found_and_told_in_words_without_values(case):
    losses_of, words = MIXING[case]
    with pytest.raises(ProbeError, match=words) as told:
        MixingWatch(losses_of, every=1).look(*_batch())
    assert not any(digit in str(told.value) for digit in "0123456789")


@pytest.mark.parametrize("thorough", [False, True])
def test_other_random_numbers_than_those_of_dropout_are_refused(thorough):
    with pytest.raises(ProbeError, match=r"draws random numbers by aten\.randn_like"):
        find_mixing(lambda x, y: PLAIN(x + torch.randn_like(x), y), *_batch(), thorough=thorough)


@pytest.mark.parametrize("case", ["the mean", "the size"])
def test_a_plain_search_finds_at_once_what_touches_everybody(case):
    for _ in range(10):
        assert find_mixing(MIXING[case][0], *_batch()) is not None


@pytest.mark.parametrize("mover", range(8))
def test_each_of_the_first_examples_is_tried(mover):
    """One that moves a single other one is found, whichever it is; random parts miss it 4 times in 10."""

    def losses_of(x, y, who):
        return PLAIN(x, y) + (who == (mover + 1) % 8) * x[who == mover].sum()

    searches = [find_mixing(losses_of, *_batch(), torch.arange(12), thorough=True) for _ in range(10)]
    assert None not in searches


class Lazy(UserDict):
    """Makes its tensors when it is asked."""

    def __getitem__(self, key):
        return super().__getitem__(key).clone()


@pytest.mark.parametrize("thorough", [False, True])
def test_tensors_that_a_mapping_makes_when_it_is_asked_are_changed_too(thorough):
    batch = Lazy(x=_batch()[0])
    found = find_mixing(lambda b: b["x"][:, 0] * b["x"].sum(), batch, thorough=thorough)
    assert "replaced" in (found or "")
    assert find_mixing(lambda b: b["x"][:, 0], batch, thorough=thorough) is None


def test_losses_of_a_large_batch_are_divided_by_its_mean():
    x, y = _batch(4000)
    assert "replaced" in (find_mixing(lambda x, y: (w := x[:, 0].exp()) / w.mean().detach(), x, y) or "")


@pytest.mark.parametrize("thorough", [False, True])
def test_losses_that_remember_are_found(thorough):
    seen = []

    def losses_of(x, y):
        seen.append(float(x.sum()))
        return x[:, 0] + sum(seen[-5:])

    assert "Two calls on the same batch" in (find_mixing(losses_of, *_batch(), thorough=thorough) or "")


def test_losses_that_know_a_batch_again_are_found():
    """They stay as they are where the batch has changed since."""
    last = [torch.zeros(0)]

    def losses_of(x, y):
        known = torch.equal(x, last[0])
        last[0] = x
        return PLAIN(x, y) + known

    assert "Two calls on the same batch" in (find_mixing(losses_of, *_batch(), thorough=True) or "")


@pytest.mark.parametrize("thorough", [False, True])
def test_looking_changes_neither_the_random_state_nor_batch_and_weights(thorough):
    model, batch = _mlp(nn.Dropout(0.5)), _batch()
    weights, before = copy.deepcopy(model.state_dict()), [part.clone() for part in batch]
    torch.manual_seed(7)
    find_mixing(_of(model), *batch, thorough=thorough)
    assert torch.equal(torch.rand(5), torch.rand(5, generator=torch.Generator().manual_seed(7)))
    assert all(torch.equal(a, b) for a, b in zip(batch, before, strict=True))
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_the_random_state_comes_back_after_an_error_too():
    def broken(x, y):
        raise OSError("gone")

    state = torch.get_rng_state()
    with pytest.raises(OSError, match="gone"):
        find_mixing(broken, *_batch())
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("n", [0, 1])
def test_a_batch_of_one_shows_nothing_and_is_not_asked(n):
    assert find_mixing(lambda *_: pytest.fail("called"), *_batch(n), thorough=True) is None


@pytest.mark.parametrize("losses_of", [lambda x, y: x.mean(), lambda x, y: x, lambda x, y: None])
def test_losses_that_are_not_one_for_each_example_are_refused(losses_of):
    with pytest.raises(ModelError, match=r"shape \(N,\)"):
        find_mixing(losses_of, *_batch())


def test_a_batch_without_a_tensor_is_refused():
    with pytest.raises(ModelError, match="no tensor"):
        find_mixing(lambda n: torch.zeros(n), 3)


@pytest.mark.parametrize(("thorough", "most", "batches"), [(False, 3, 3), (True, 25, 7)])
def test_a_search_takes_few_calls(thorough, most, batches):
    calls = []

    def losses_of(x, y):
        calls.append(len(x))
        return PLAIN(x, y)

    find_mixing(losses_of, *_batch(200), thorough=thorough)
    assert len(calls) <= most
    assert sum(calls) <= 200 * batches + 8 * most


def test_losses_that_grow_slowly_with_the_position_are_found():
    """By 1 % a place. One random part of the batch overlooked it in one search of a hundred."""
    weights = torch.linspace(1.0, 2.0, 100)
    searches = [
        find_mixing(lambda x, y: PLAIN(x, y) * weights[: len(x)], *_batch(20), thorough=True)
        for _ in range(300)
    ]
    assert None not in searches


def test_gradients_are_on_as_in_training():
    """Losses that behave otherwise without gradients would hide."""
    with torch.no_grad():
        found = find_mixing(lambda x, y: x[:, 0] + float(torch.is_grad_enabled()) * x.sum(), *_batch())
    assert found is not None


def test_mixing_that_few_random_states_show_is_looked_for_under_many():
    """One search overlooks what happens one time in twenty with probability 0.05; five do so with 3e-7."""

    def losses_of(x, y):
        return x[:, 0] * (x.sum() if torch.bernoulli(torch.tensor(0.05)) else 1)

    torch.manual_seed(0)  # whose first coin shows 0
    assert any(find_mixing(losses_of, *_batch(), thorough=True) for _ in range(5))
