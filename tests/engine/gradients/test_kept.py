from dataclasses import replace

import pytest
import torch

from fl_dp.engine.gradients.convolution import Conv, Geometry
from fl_dp.engine.gradients.kept import Copies, Kept, keep_instantiated, weighted_rows
from fl_dp.engine.gradients.layouts import GradientLayout
from fl_dp.engine.gradients.outer_products import Outer
from fl_dp.engine.sum_error import Additions, additions

FACTORS = torch.tensor([0.5, 0.0, 2.0])
SINGLY = Additions(1, wide=False)
TOGETHER = Additions(3, wide=False)


@pytest.mark.parametrize("shape", [(3, 4), (3, 2, 5), (3,)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_lengths_and_the_sum_of_factors_times_gradients(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    grads = torch.randn(shape).to(dtype)
    kept = keep_instantiated(grads)
    total = kept.weighted_sum(FACTORS, TOGETHER)
    assert total.dtype == torch.promote_types(dtype, torch.float32)
    expected = torch.tensordot(FACTORS.double(), grads.double(), dims=1)
    torch.testing.assert_close(total.double(), expected, rtol=1e-5, atol=1e-6)
    squares = grads.double().view(3, -1).square().sum(1)
    torch.testing.assert_close(kept.norm_squared.double(), squares, rtol=1e-5, atol=0)


@pytest.mark.parametrize("additions", [SINGLY, TOGETHER, Additions(2, wide=True)])
@pytest.mark.parametrize("left_out", [[1], [0, 1], [0, 1, 2]])
def test_an_example_that_is_left_out_is_never_multiplied(left_out: list[int], additions: Additions) -> None:
    """Zero times NaN is NaN."""
    grads = torch.randn(3, 4, dtype=torch.float64)
    grads[left_out] = torch.nan
    mask = torch.zeros(3, dtype=torch.bool)
    mask[left_out] = True
    total = keep_instantiated(grads).weighted_sum(FACTORS, additions, left_out=mask)
    torch.testing.assert_close(total, FACTORS.double()[~mask] @ grads[~mask])


def test_factors_of_narrow_numbers_lose_nothing() -> None:
    rows = torch.ones(3, 2, dtype=torch.bfloat16)
    factors = torch.tensor([1 / 3, 1 / 5, 1 / 7])
    torch.testing.assert_close(weighted_rows(factors, rows)[:, 0], factors, rtol=0, atol=0)


def test_copies_are_exact_in_one_memory_and_never_the_rows_themselves_where_they_are_scaled() -> None:
    rows, copies = torch.randn(3, 2), Copies(torch.float64)
    scaled = copies.of(rows, FACTORS)
    assert torch.equal(scaled, rows.double() * FACTORS.double()[:, None])
    assert copies.of(rows[:2]).data_ptr() == scaled.data_ptr()
    assert torch.equal(scaled[:2], rows[:2].double())
    same = Copies(torch.float32)
    assert same.of(rows) is rows
    before = rows.clone()
    assert not torch.equal(same.of(rows, 2 * FACTORS), rows)
    assert torch.equal(rows, before)


def _sums(kept: Kept, count: int, most: int, *, ordered: bool = False, numbers: int = 2**20) -> list[int]:
    """How many examples each product has. numbers: as if gradients had so many."""
    seen: list[int] = []
    adding = additions(kept.positions, numbers, most, ordered=ordered)
    wide = adding.wide

    def combine(factors: torch.Tensor, *parts: torch.Tensor) -> torch.Tensor:
        seen.append(len(factors))
        assert {len(part) for part in parts} == {len(factors)}
        assert factors.dtype == (torch.float64 if wide else torch.float32)
        return kept.combine(factors, *parts)

    def of_blocks(factors: torch.Tensor, *parts: torch.Tensor) -> torch.Tensor:
        assert kept.of_blocks is not None
        seen.extend([factors.shape[1]] * len(factors))
        assert 1 < len(factors) <= adding.at_once
        assert {part.shape[:2] for part in parts} == {factors.shape}
        return kept.of_blocks(factors, *parts)

    blocks = of_blocks if kept.of_blocks else None
    total = replace(kept, combine=combine, of_blocks=blocks).weighted_sum(torch.ones(count), adding)
    assert total.dtype == (torch.float64 if wide or len(seen) > adding.together else torch.float32)
    return seen


def test_as_many_terms_are_added_at_once_as_the_theorem_has() -> None:
    """docs/rounding.md: vectors in float32, or 2^12 or 2^14 positions in float64; blocks in float64."""
    vectors = keep_instantiated(torch.randn(100, 5))
    assert _sums(vectors, 100, 1024) == [32, 32, 32, 4]
    assert _sums(vectors, 100, 256) == _sums(vectors, 100, 2**20) == [100]
    short = Outer(torch.randn(900, 8, 1), torch.randn(900, 8, 1)).keep("ghost")
    assert _sums(short, 900, 64) == [512, 388]
    few = Outer(torch.randn(20, 8, 1), torch.randn(20, 8, 1)).keep("ghost")
    assert _sums(few, 20, 64, ordered=True) == [8, 8, 4]
    assert _sums(short, 900, 64, ordered=True, numbers=2**10) == [512, 388]
    assert _sums(vectors, 100, 2**20, ordered=True) == [64, 36]
    terms = Outer(torch.randn(9, 4096, 1), torch.randn(9, 4096, 1)).keep("ghost")
    assert _sums(terms, 9, 64) == [4, 4, 1]
    image = torch.randn(9, 1, 64, 64)
    conv = Conv(image, image, 1, Geometry((3, 3), (1, 1), (1, 1), (1, 1), 1))
    assert _sums(conv.keep("ghost-matmul"), 9, 64) == [4, 4, 1]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("count", [4, 16, 17, 70])
@pytest.mark.parametrize("kind", ["outer, left", "outer, right", "conv", "conv, groups, two images"])
def test_blocks_that_one_call_forms_are_the_sum(kind: str, count: int, dtype: torch.dtype) -> None:
    layout: GradientLayout
    if kind.startswith("outer"):
        p, d = (3, 5) if kind == "outer, left" else (5, 3)
        layout = Outer(torch.randn(count, 2, p).to(dtype), torch.randn(count, 2, d).to(dtype))
    else:
        images, groups = (1, 1) if kind == "conv" else (2, 2)
        x, grad = torch.randn(count * images, 4, 5, 6), torch.randn(count * images, 6, 3, 2)
        layout = Conv(grad.to(dtype), x.to(dtype), images, Geometry((3, 3), (2, 3), (1, 1), (1, 1), groups))
    kept, factors = layout.keep(layout.kernels[0]), torch.rand(count)
    assert kept.of_blocks is not None
    total = kept.weighted_sum(factors, Additions(4, wide=False, together=8, at_once=3))
    expected = torch.tensordot(factors, layout.instantiate().float(), 1)
    within = 1e-1 if dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(total.float(), expected, rtol=within, atol=within)


def test_there_is_no_ghost_kernel_for_more_positions_than_that() -> None:
    few, many = torch.randn(1, 2**14, 1), torch.randn(1, 2**14 + 1, 1)
    assert Outer(few, few).kernels == ("ghost", "instantiate")
    assert Outer(many, many).kernels == ("instantiate",)
    image = torch.randn(1, 1, 129, 128)
    geometry = Geometry((1, 1), (1, 1), (0, 0), (1, 1), 1)
    assert not any(kernel.startswith("ghost") for kernel in Conv(image, image, 1, geometry).kernels)
