"""nn.Embedding: a row of the table for each index."""

import torch

from fl_dp.engine.gradients.layouts import GradientLayout
from fl_dp.engine.gradients.table_rows import Rows
from fl_dp.engine.rule import NO_PADDING, Rule, Site, refuse_scaling_by_frequency


def embedding(site: Site) -> GradientLayout:
    """EmbeddingBackward0(table (V, d)) over indices of any shape; sparse=True gives a dense gradient, too."""
    node = site.node
    refuse_scaling_by_frequency(site)
    indices = site.rows(node._saved_indices).flatten(1).long()  # (N, T)
    grads = site.rows(site.grad)
    grads = grads.reshape(*indices.shape, grads.shape[-1])  # (N, T, d)
    if node._saved_padding_idx not in NO_PADDING:
        grads = torch.where((indices == node._saved_padding_idx)[:, :, None], 0, grads)
    return Rows(indices, grads, node._saved_weight_sym_argsize_0)


RULES = {"EmbeddingBackward0": Rule(embedding)}
