"""nn.Embedding: a row of the table for each index."""

import torch

from fl_dp.engine.gradients.layouts import Form, Rows
from fl_dp.engine.rules.rule import Site, mixes

NO_PADDING = (-1, 2**64 - 1)  # how autograd's node shows that there is no padding index


def embedding(site: Site) -> Form:
    """EmbeddingBackward0(table (V, d)) over indices of any shape; with sparse=True too, but not sparsely."""
    node = site.node
    if node._saved_scale_grad_by_freq:
        mixes(site.key, "scale_grad_by_freq divides by the number of uses in the whole batch")
    indices = site.rows(node._saved_indices).flatten(1).long()  # (N, T)
    grads = site.rows(site.grad)
    grads = grads.reshape(*indices.shape, grads.shape[-1])  # (N, T, d)
    if node._saved_padding_idx not in NO_PADDING:
        grads = torch.where((indices == node._saved_padding_idx)[:, :, None], 0, grads)
    return Rows(indices, grads, node._saved_weight_sym_argsize_0)
