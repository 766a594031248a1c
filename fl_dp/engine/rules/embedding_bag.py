"""nn.EmbeddingBag: sums and means of rows of a table."""

import torch
from torch import Tensor

from fl_dp.engine.gradients.layouts import GradientLayout
from fl_dp.engine.gradients.table_rows import Rows
from fl_dp.engine.rule import NO_PADDING, Rule, Site, refuse, refuse_scaling_by_frequency

_MEAN, _MAX = 1, 2


def embedding_bag(site: Site) -> GradientLayout:
    """EmbeddingBagBackward0(table (V, d), weights): bags of any lengths, K of them an example."""
    node = site.node
    refuse_scaling_by_frequency(site)
    if site.key.argument != 0 or node._saved_mode == _MAX:
        refuse(site.key, "weights of rows, and mode='max', have no rule")
    indices = node._saved_indices.long()  # (L,) row of each position
    bag = _bag_of(len(indices), node._saved_offsets, len(site.grad))  # (L,)
    counts = torch.ones_like(indices, dtype=torch.bool)  # (L,) whether a position counts: all but padding
    if node._saved_padding_idx not in NO_PADDING:
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


RULES = {"EmbeddingBagBackward0": Rule(embedding_bag)}
