"""nn.Embedding, a row of the table for each index, and nn.EmbeddingBag: sums and means of such rows."""

import torch
from torch import Tensor

from fl_dp.engine.gradients.layouts import GradientLayout
from fl_dp.engine.gradients.table_rows import Rows
from fl_dp.engine.rule import Rule, Site, refuse
from fl_dp.errors import ModelError

_NO_PADDING = (-1, 2**64 - 1)  # values of `_saved_padding_idx` that stand for no padding index
_MEAN, _MAX = 1, 2


def embedding(site: Site) -> GradientLayout:
    """EmbeddingBackward0(table (V, d)) over indices of any shape; sparse=True gives a dense gradient, too."""
    node = site.node
    _refuse_scaling_by_frequency(site)
    indices = site.rows(node._saved_indices).flatten(1).long()  # (N, T)
    grads = site.rows(site.grad)
    grads = grads.reshape(*indices.shape, grads.shape[-1])  # (N, T, d)
    if node._saved_padding_idx not in _NO_PADDING:
        grads = torch.where((indices == node._saved_padding_idx)[:, :, None], 0, grads)
    return Rows(indices, grads, node._saved_weight_sym_argsize_0)


def embedding_bag(site: Site) -> GradientLayout:
    """EmbeddingBagBackward0(table (V, d), weights): bags of any lengths, K of them an example."""
    node = site.node
    _refuse_scaling_by_frequency(site)
    if site.key.argument != 0 or node._saved_mode == _MAX:
        refuse(site.key, "weights of rows, and mode='max', have no rule")
    indices = node._saved_indices.long()  # (L,) row of each position
    bag = _bag_of(len(indices), node._saved_offsets, len(site.grad))  # (L,)
    counts = torch.ones_like(indices, dtype=torch.bool)  # (L,) whether a position counts: all but padding
    if node._saved_padding_idx not in _NO_PADDING:
        counts = indices != node._saved_padding_idx
    grads = site.grad[bag] * _scale(site, bag, counts)[:, None]
    grads = torch.where(counts[:, None], grads, 0)  # (L, d)
    owner = site.axis.owners(len(site.grad), site.num_examples, bag.device)[bag]
    place = _places(owner, site.num_examples)
    shape = (site.num_examples, int(place.max()) + 1 if len(place) else 0)
    rows = indices.new_zeros(shape).index_put_((owner, place), indices)
    padded = grads.new_zeros(*shape, grads.shape[1]).index_put_((owner, place), grads)
    return Rows(rows, padded, node._saved_weight_sym_argsize_0)


def _bag_of(num_positions: int, offsets: Tensor, num_bags: int) -> Tensor:
    """(L,) bag of each position; a bag may be empty, and the last offset may be the end of the list."""
    positions = torch.arange(num_positions, device=offsets.device)
    return torch.bucketize(positions, offsets[:num_bags].long(), right=True) - 1


def _scale(site: Site, bag: Tensor, counts: Tensor) -> Tensor:
    """(L,) the factor of the row at each position before it is added to its bag."""
    scale = site.grad.new_ones(len(bag))
    if site.node._saved_per_sample_weights is not None:
        scale = scale * site.node._saved_per_sample_weights
    if site.node._saved_mode == _MEAN:
        lengths = site.grad.new_zeros(len(site.grad)).index_add_(0, bag, counts.to(scale.dtype))
        scale = scale / lengths.clamp_min(1)[bag]
    return scale


def _places(owner: Tensor, num_examples: int) -> Tensor:
    """(L,) how many positions of the same owner come before each position."""
    order = owner.argsort(stable=True)
    lengths = torch.bincount(owner, minlength=num_examples)
    starts = lengths.cumsum(0) - lengths
    places = torch.empty_like(owner)
    places[order] = torch.arange(len(owner), device=owner.device) - starts[owner[order]]
    return places


def _refuse_scaling_by_frequency(site: Site) -> None:
    """ModelError if gradients depend on how often the whole batch uses a row: no fallback can help then."""
    if site.node._saved_scale_grad_by_freq:
        raise ModelError(
            f"{site.key.operator.removesuffix('Backward0')} consumes {', '.join(site.key.parameters)}, but "
            "scale_grad_by_freq divides by the number of uses in the whole batch; examples then change one "
            "another's gradients, and clipping bounds nothing: switch that off."
        )


RULES = {"EmbeddingBackward0": Rule(embedding), "EmbeddingBagBackward0": Rule(embedding_bag)}
