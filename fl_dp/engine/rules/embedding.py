"""nn.Embedding: a row of the table for each index."""

import torch

from fl_dp.engine.forms import Form, Rows
from fl_dp.engine.rules.rule import Site, refuse

_UNSIGNED_MINUS_ONE = 2**64 - 1  # how autograd's node shows "no padding index"


def embedding(site: Site) -> Form:
    """EmbeddingBackward0(table (V, d)) over int64 indices of any shape."""
    node = site.node
    if node._saved_scale_grad_by_freq:
        refuse(site.key, "scale_grad_by_freq mixes the examples of a batch and cannot be protected")
    if node._saved_sparse:
        refuse(site.key, "sparse=True has no rule")
    indices = site.rows(node._saved_indices).flatten(1)  # (N, T)
    grads = site.rows(site.grad)
    grads = grads.reshape(*indices.shape, grads.shape[-1])  # (N, T, d)
    padding = node._saved_padding_idx
    if padding not in (-1, _UNSIGNED_MINUS_ONE):
        grads = torch.where((indices == padding)[:, :, None], 0, grads)
    return Rows(indices, grads, node._saved_weight_sym_argsize_0)
