"""A small transformer over tokens (Vaswani et al. 2017, arXiv 1706.03762), pre-norm, without dropout."""

import torch
from torch import Tensor, nn

from fl_dp.form import Form
from fl_dp.models.build import Model
from fl_dp.models.expect import expect_tokens

_WIDTH, _HEADS, _LAYERS = 64, 4, 2


def transformer(form: Form) -> nn.Module:
    """For tokens (T,): a classifier (or a regression), or a decoder for next tokens."""
    expect_tokens(form)
    return Transformer(form)


class Transformer(nn.Module):
    """Tokens (n, T) to (n, outputs), or to (n, T, outputs) if each position has its own answer.

    A decoder's position sees itself and earlier ones; a classifier takes the mean over all positions.
    """

    def __init__(self, form: Form) -> None:
        super().__init__()
        (length,) = form.input_shape
        self.decodes = form.targets == "tokens"
        self.tokens = nn.Embedding(form.vocabulary, _WIDTH)
        self.places = nn.Parameter(torch.empty(length, _WIDTH))
        self.blocks = nn.ModuleList(_Block(causal=self.decodes) for _ in range(_LAYERS))
        self.norm = nn.LayerNorm(_WIDTH)
        self.head = nn.Linear(_WIDTH, form.outputs)
        for table in (self.tokens.weight, self.places):
            nn.init.normal_(table, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        answers: Tensor = self.head(x if self.decodes else x.mean(1))
        return answers


class _Block(nn.Module):
    def __init__(self, *, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.attention_norm, self.feed_norm = nn.LayerNorm(_WIDTH), nn.LayerNorm(_WIDTH)
        self.qkv, self.out = nn.Linear(_WIDTH, 3 * _WIDTH), nn.Linear(_WIDTH, _WIDTH)
        self.feed = nn.Sequential(nn.Linear(_WIDTH, 4 * _WIDTH), nn.GELU(), nn.Linear(4 * _WIDTH, _WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self._attention(self.attention_norm(x))
        fed: Tensor = x + self.feed(self.feed_norm(x))
        return fed

    def _attention(self, x: Tensor) -> Tensor:
        heads = self.qkv(x).unflatten(2, (3, _HEADS, -1)).permute(2, 0, 3, 1, 4)  # (3, n, heads, T, d)
        query, key, value = heads.unbind(0)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        out: Tensor = self.out(seen.transpose(1, 2).flatten(2))
        return out


MODEL = Model(transformer)
