"""Records of which only tensors are known."""

import numpy as np
import torch

from fl_dp.data.traces.tensors import of_tensors

DRAW = torch.Generator().manual_seed(0)


def shared(one: list[bytes], other: list[bytes]) -> float:
    return len(set(one) & set(other)) / min(len(one), len(other))


def test_numbers_are_known_with_other_targets_and_in_other_columns() -> None:
    x = torch.randn(90, 6, generator=DRAW)
    first = of_tensors(x, torch.zeros(90), ()).digests()
    assert shared(first, of_tensors(x, torch.randn(90, 2, generator=DRAW), ()).digests()) > 0.2
    assert shared(first, of_tensors(x[:, 1:], torch.zeros(90), ()).digests()) > 0.03
    assert shared(first, of_tensors(torch.randn(90, 6, generator=DRAW), torch.zeros(90), ()).digests()) == 0


def test_pixels_are_known_with_other_labels() -> None:
    x = torch.randint(0, 256, (20, 1, 8, 8), generator=DRAW, dtype=torch.uint8)
    one, other = (of_tensors(x, torch.full((20,), label), ()).digests() for label in (0, 1))
    assert len(one) == 20
    assert set(one) == set(other)


def test_tokens_are_known_in_rows_of_another_length() -> None:
    tokens = torch.from_numpy(np.random.default_rng(0).integers(0, 500, 9600))
    one, other = (of_tensors(tokens.view(-1, wide), tokens.view(-1, wide), ()) for wide in (96, 64))
    assert shared(one.digests(), other.digests()) > 0.5


def test_labels_are_known_by_their_names_as_in_a_table() -> None:
    x, y = torch.randn(90, 6, generator=DRAW), torch.arange(90) % 2
    first = of_tensors(x, y, (), ("no", "yes")).digests()
    assert set(first) == set(of_tensors(x, 1 - y, (), ("yes", "no")).digests())
    assert set(first) != set(of_tensors(x, y, (), ("0", "1")).digests())
