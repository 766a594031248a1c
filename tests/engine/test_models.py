"""PyTorch's own layers and Opacus' equal one backward pass per example, however they are called."""

import pytest
import torch
from definition import length, trainable
from opacus.layers import DPGRU, DPLSTM, DPRNN, DPMultiheadAttention
from structured import (
    Batch,
    Beside,
    Called,
    Weight,
    assert_equals_definition,
    call,
    losses_of,
    one_example,
)
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from fl_dp.engine.clipping import clipped_grad_sum
from fl_dp.engine.probe import probe
from fl_dp.errors import NonFiniteError

pytestmark = pytest.mark.usefixtures("exact")


def positions(n: int) -> Batch:
    return call(torch.randn(n, 4, 6))


def images(n: int) -> Batch:
    return call(torch.randn(n, 3, 5, 6))


def volumes(dims: int):
    return lambda n: call(torch.randn(n, 4, *(4,) * dims))


def words(n: int) -> Batch:
    return call(torch.randint(0, 11, (n, 5)))


CASES = {
    "several inputs": (lambda: nn.Bilinear(6, 5, 4), lambda n: call(torch.randn(n, 6), torch.randn(n, 5))),
    "keywords": (
        lambda: Called(nn.Linear(6, 4), lambda m, *, x, scale: m(x) * scale),
        lambda n: call(x=torch.randn(n, 6), scale=torch.tensor(2.0)),
    ),
    "nested inputs and outputs": (
        lambda: Called(nn.Linear(6, 4), lambda m, d, flag: {"a": (m(d["x"][0]), None), "b": [m(d["x"][1])]}),
        lambda n: call({"x": [torch.randn(n, 6), torch.randn(n, 3, 6)]}, flag=True),
    ),
    "tokens and types": (
        lambda: Called(
            nn.ModuleList([nn.Embedding(11, 4), nn.Embedding(2, 4)]), lambda m, i, t: m[0](i) * m[1](t)
        ),
        lambda n: call(torch.randint(0, 11, (n, 5)), torch.randint(0, 2, (n, 5))),
    ),
    "transformer": (
        lambda: nn.Transformer(6, 2, 1, 1, 8, 0.0, batch_first=True),
        lambda n: call(torch.randn(n, 4, 6), torch.randn(n, 3, 6)),
    ),
    "LSTM cell": (lambda: Called(nn.LSTMCell(6, 4), lambda m, x: m(x[:, 1], m(x[:, 0]))[0]), positions),
    "GRU cell": (lambda: Called(nn.GRUCell(6, 4), lambda m, x: m(x[:, 1], m(x[:, 0]))), positions),
    "weight norm of a convolution": (lambda: parametrizations.weight_norm(nn.Conv2d(3, 4, 3)), images),
    "spectral norm, evaluating": (lambda: parametrizations.spectral_norm(nn.Linear(6, 5)).eval(), positions),
    "orthogonal": (lambda: parametrizations.orthogonal(nn.Linear(6, 6)), positions),
    "embedding, sparse": (lambda: nn.Embedding(11, 4, sparse=True), words),
    "bag, mean": (lambda: nn.EmbeddingBag(11, 4), words),
    "bag, max": (lambda: nn.EmbeddingBag(11, 4, mode="max"), words),
    "bag, padded mean": (lambda: nn.EmbeddingBag(11, 4, padding_idx=2), words),
    "bag, weighed": (
        lambda: Called(nn.EmbeddingBag(11, 4, mode="sum"), lambda m, x, w: m(x, per_sample_weights=w)),
        lambda n: call(torch.randint(0, 11, (n, 5)), torch.randn(n, 5)),
    ),
    "bag, offsets": (
        lambda: Called(
            nn.EmbeddingBag(11, 4, include_last_offset=True),
            lambda m, x: m(x.flatten(), torch.arange(len(x) + 1) * x.shape[1]),
        ),
        words,
    ),
    "bag, two an example": (
        lambda: Called(nn.EmbeddingBag(11, 4), lambda m, x: m(x.view(-1, 3)).view(-1, 8)),
        lambda n: call(torch.randint(0, 11, (n, 6))),
    ),
    "bag, batch second": (
        lambda: Called(
            nn.EmbeddingBag(11, 4),
            lambda m, x: m(x.transpose(0, 1).reshape(-1, 3)).unflatten(0, (2, len(x))).transpose(0, 1),
        ),
        lambda n: call(torch.randint(0, 11, (n, 2, 3))),
    ),
    "bag, empty ones": (
        lambda: Called(
            nn.EmbeddingBag(11, 4),
            lambda m, x: m(x.flatten(), torch.arange(len(x)).repeat_interleave(2) * 5).view(-1, 8),
        ),
        words,
    ),
    "PReLU of one parameter": (
        lambda: nn.Sequential(nn.Conv2d(3, 3, 2), nn.PReLU(), nn.Conv2d(3, 2, 2)),
        images,
    ),
    "RMS norm over two": (lambda: nn.Sequential(nn.Linear(6, 6), nn.RMSNorm((4, 6))), positions),
    "a matrix for each position": (
        lambda: Weight((4, 6, 5), lambda x, w: torch.einsum("ntd,tdp->ntp", x, w)),
        positions,
    ),
    "a matrix for each head": (
        lambda: Weight((2, 3, 5), lambda x, w: torch.einsum("nthd,hdp->nthp", x.unflatten(2, (2, 3)), w)),
        positions,
    ),
    "a matrix from the left": (lambda: Weight((5, 4), lambda x, w: w @ x), positions),
    "a vector": (lambda: Weight((6,), lambda x, w: x[:, 0] @ w), positions),
    "division": (lambda: Weight((6,), lambda x, w: x / (w + 9)), positions),
    "gates": (lambda: Weight((6,), lambda x, w: (1 - w) * x + w.sigmoid()), positions),
    "a token in place of some": (
        lambda: Weight((1, 1, 6), lambda x, w: torch.where(x[:, :, :1] > 0, w, x)),
        positions,
    ),
    "a token as the query": (
        lambda: Beside((1, 2, 6), lambda m, w, x: m(w.expand(len(x), -1, -1)) * x[:, :2]),
        positions,
    ),
    "a pattern, repeated": (lambda: Weight((2, 6), lambda x, w: x + w.repeat(2, 1)), positions),
}
for activation in (nn.ReLU(True), nn.ELU(inplace=True), nn.Hardswish(True), nn.SiLU(True)):
    name = f"in place: {type(activation).__name__}"
    CASES[name] = (lambda a=activation: nn.Sequential(nn.Conv2d(3, 3, 2), a, nn.Conv2d(3, 2, 2)), images)
for mode in ("zeros", "reflect", "replicate", "circular"):
    CASES[f"padding {mode}"] = (lambda m=mode: nn.Conv2d(3, 4, 3, padding=(1, 2), padding_mode=m), images)
    CASES[f"same padding {mode}"] = (
        lambda m=mode: nn.Conv2d(3, 4, (3, 5), padding="same", padding_mode=m),
        images,
    )
for dims, layer in ((1, nn.ConvTranspose1d), (2, nn.ConvTranspose2d), (3, nn.ConvTranspose3d)):
    CASES[f"transposed, {dims} dimensions"] = (
        lambda c=layer: c(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2, dilation=2),
        volumes(dims),
    )


@pytest.mark.parametrize("case", CASES)
def test_equals_one_backward_per_example(case):
    make, sample = CASES[case]
    assert_equals_definition(make(), sample)


@pytest.mark.parametrize("layer", [DPLSTM, DPGRU, DPRNN])
@pytest.mark.parametrize("batch_first", [True, False])
def test_recurrent_layers_of_opacus(layer, batch_first):
    def run(m: nn.Module, x: Tensor) -> Tensor:
        return m(x)[0] if batch_first else m(x.transpose(0, 1))[0].transpose(0, 1)

    layers = layer(6, 4, num_layers=2, bidirectional=True, batch_first=batch_first)
    assert_equals_definition(Called(layers, run), positions)


class Packing(nn.Module):
    """A recurrent layer over packed sequences, whose lengths are given, or found where words are not 0."""

    def __init__(self, layer: nn.Module, last: bool, batch_first: bool = True) -> None:
        super().__init__()
        self.words, self.layer, self.head = (
            nn.Embedding(11, 5, padding_idx=0, sparse=last),
            layer,
            nn.Linear(4, 3),
        )
        self.last, self.batch_first = last, batch_first

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        lengths = (x != 0).sum(1).clamp_min(1) if lengths is None else lengths
        rows = self.words(x) if self.batch_first else self.words(x).transpose(0, 1)
        packed = pack_padded_sequence(rows, lengths, batch_first=self.batch_first, enforce_sorted=False)
        outputs, state = self.layer(packed)
        state = state[0] if isinstance(state, tuple) else state
        padded, _ = pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])
        return self.head(state[-1] if self.last else padded)


def sentences(n: int, given: bool) -> Batch:
    lengths = torch.tensor([3, 1, 6, 2, 2, 6, 5])[:n]
    padded = torch.where(torch.arange(6) < lengths[:, None], torch.randint(1, 11, (n, 6)), 0)
    return call(padded, lengths) if given else call(padded)


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN, DPLSTM])
def test_packed_sequences(layer, given):
    both, last = layer(5, 2, bidirectional=True, batch_first=True), layer(5, 4, num_layers=2)
    assert_equals_definition(Packing(both, False), lambda n: sentences(n, given), sizes=(1, 7))
    assert_equals_definition(Packing(last, True, False), lambda n: sentences(n, given), sizes=(1, 7))


def test_of_packed_sequences_an_example_that_is_not_finite_is_taken_alone():
    model = Packing(nn.GRU(5, 4, batch_first=True), False)
    axes, batch = probe(model, *sentences(3, True)[0]), sentences(7, True)
    losses = losses_of(model, batch) * torch.tensor([1.0, torch.nan, 1.0, 1.0, 1.0, 1.0, 1.0])
    with pytest.raises(NonFiniteError, match="process the examples one at a time"):
        clipped_grad_sum(losses, trainable(model), max_grad_norm=1.0, axes=axes)
    alone = losses_of(model, one_example(batch, 1)) * torch.nan
    assert length(clipped_grad_sum(alone, trainable(model), max_grad_norm=1.0, axes=axes).grads) == 0.0


# PyTorch's attention refuses an empty batch when there is a padding mask, Opacus' always.
TORCH, OPACUS = nn.MultiheadAttention, DPMultiheadAttention
ATTENTION = {
    "itself": (TORCH, {}, {}),
    "itself, weights": (TORCH, {}, {"need_weights": True}),
    "bias_kv": (TORCH, {"add_bias_kv": True}, {}),
    "zero_attn": (TORCH, {"add_zero_attn": True}, {}),
    "another": (TORCH, {}, {"memory": 6}),
    "kdim": (TORCH, {"kdim": 3, "vdim": 3}, {"memory": 3}),
    "attn_mask": (TORCH, {}, {"attn_mask": torch.ones(4, 4, dtype=torch.bool).triu(1)}),
    "key_padding_mask": (TORCH, {}, {"key_padding_mask": torch.arange(4) > torch.arange(7)[:, None] % 4}),
    "Opacus": (OPACUS, {"dropout": 0.0}, {}),
    "Opacus, bias_kv": (OPACUS, {"dropout": 0.0, "add_bias_kv": True}, {}),
}


@pytest.mark.parametrize("case", ATTENTION)
def test_attention(case):
    """With the batch second, as is usual; with the batch first test_clipping.py has it."""
    layer, options, given = ATTENTION[case]

    def sample(n: int) -> Batch:
        made = {"memory": lambda width: torch.randn(n, 5, width), "key_padding_mask": lambda mask: mask[:n]}
        return call(torch.randn(n, 4, 6), **{k: made.get(k, lambda v: v)(v) for k, v in given.items()})

    def run(m: nn.Module, x: Tensor, memory: Tensor | None = None, **kw) -> list[Tensor]:
        query, key = x.transpose(0, 1), (x if memory is None else memory).transpose(0, 1)
        output, weights = m(query, key, key, **{"need_weights": False, **kw})
        return [output.transpose(0, 1)] + ([] if weights is None else [weights])

    sizes = (1, 7) if layer is OPACUS or case == "key_padding_mask" else (0, 1, 7)
    assert_equals_definition(Called(layer(6, 2, **options), run), sample, sizes)
