"""Definition: the squared length of the sum of outer products. Promise: never less, whatever the values."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fl_dp.engine.gradients import example_chunks as chunks
from fl_dp.engine.gradients import gram
from fl_dp.engine.gradients.gram import gram_product

# T, p, d
SHAPES = [(0, 2, 3), (1, 1, 1), (1, 5, 3), (2, 3, 1), (5, 3, 17), (33, 64, 20), (129, 7, 9), (300, 4, 5)]


def by_definition(left: Tensor, right: Tensor) -> Tensor:
    """(N,) squared lengths of the sums of outer products, in float64."""
    return torch.bmm(left.double().transpose(1, 2), right.double()).square().sum((1, 2))


def _pair(num_examples, shape, dtype=torch.float32):
    torch.manual_seed(0)
    T, p, d = shape
    return torch.randn(num_examples, T, p).to(dtype), torch.randn(num_examples, T, d).to(dtype)


@pytest.mark.parametrize("num_examples", [0, 1, 7])
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_the_definition_in_float64(shape, num_examples):
    left, right = _pair(num_examples, shape, torch.float64)
    found = gram_product(left, right)[0]
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, by_definition(left, right), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", SHAPES)
def test_is_float32_and_at_most_a_little_too_large_for_shorter_types(shape, dtype):
    left, right = _pair(7, shape, dtype)
    found, exact = gram_product(left, right)[0], by_definition(left, right)
    assert found.dtype == torch.float32
    assert (found >= exact).all()
    torch.testing.assert_close(found.double(), exact, rtol=2e-2, atol=0)


@pytest.mark.parametrize("tile", [1, 2, 7, 64])
@pytest.mark.parametrize("workspace", [1, 1000, 1 << 21])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_tiles_and_workspaces_of_any_size_agree(monkeypatch, tile, workspace, dtype):
    left, right = _pair(5, (13, 4, 3), dtype)
    monkeypatch.setattr(gram, "_CPU_TILE", tile)
    monkeypatch.setattr(chunks, "_CPU_BYTES", workspace)
    tolerance = 1e-9 if dtype == torch.float64 else 1e-3
    found = gram_product(left, right)[0].double()
    torch.testing.assert_close(found, by_definition(left, right), rtol=tolerance, atol=tolerance)


def test_no_tensor_is_larger_than_the_workspace(monkeypatch):
    """T x T matrices would be a hundred times as large."""
    workspace, sizes, original = 1 << 16, [], torch.bmm
    monkeypatch.setattr(gram, "_CPU_TILE", 64)
    monkeypatch.setattr(chunks, "_CPU_BYTES", workspace)
    monkeypatch.setattr(torch, "bmm", lambda a, b: sizes.append((out := original(a, b)).nbytes) or out)
    gram_product(*_pair(3, (640, 2, 2)))
    assert 0 < max(sizes) <= workspace


def test_views_of_any_strides_and_pairs_of_types():
    left = torch.randn(3, 8, 40)[:, 1:7].transpose(1, 2)
    right = torch.randn(40, 3, 10)[..., ::2].transpose(0, 1)
    for one in (left, left.bfloat16()):
        found = gram_product(one, right)[0].double()
        torch.testing.assert_close(found, by_definition(one, right), rtol=1e-3, atol=0)


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), -float("inf"), 1e30])
@pytest.mark.parametrize("shape", [(1, 3, 4), (6, 3, 4), (300, 3, 4)])
@pytest.mark.parametrize("side", [0, 1])
def test_values_that_are_not_finite_stay_with_their_example(shape, poison, side):
    pair = _pair(4, shape)
    clean = gram_product(*pair)[0]
    pair[side][2, -1, 1] = poison
    found = gram_product(*pair)[0]
    assert not found[2].isfinite()
    others = torch.tensor([0, 1, 3])
    assert torch.equal(found[others], clean[others])


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    shape=st.tuples(st.integers(1, 40), st.integers(1, 9), st.integers(1, 9)),
    log_scales=st.tuples(st.integers(-44, 18), st.integers(-44, 18)),
    cancel=st.sampled_from([0.0, 1e-2, 1e-4, 1e-6]),
    flush=st.booleans(),
)
def test_never_less_than_the_definition(seed, shape, log_scales, cancel, flush):
    """Huge beside tiny, and terms that cancel up to `cancel`: what rounding or underflow could hide."""
    torch.manual_seed(seed)
    T, p, d = shape
    left, right = torch.randn(2, T, p), torch.randn(2, T, d)
    if cancel:
        left, right = torch.cat([left, -left * (1 + cancel)], 1), torch.cat([right, right], 1)
    left, right = (x * 10.0**log for x, log in zip((left, right), log_scales, strict=True))
    exact = by_definition(left, right)
    torch.set_flush_denormal(flush)
    found = gram_product(left, right)[0]
    torch.set_flush_denormal(False)
    below_normal = left.shape[1] ** 2 * torch.finfo(torch.float32).tiny
    assert ((found.double() + below_normal >= exact) | ~found.isfinite()).all()


@pytest.mark.parametrize("T", [1, 20])
@pytest.mark.parametrize(("entry", "flush"), [(2e-23, False), (3e-20, True)])
def test_a_tiny_row_times_a_huge_one_cannot_hide_a_long_gradient(T, entry, flush):  # noqa: N803
    """All squares of the left rows count as zero in float32; the gradient is up to 200 long."""
    left, right = torch.full((1, T, 1000), entry), torch.full((1, T, 1), 1e19)
    exact = by_definition(left, right)
    assert exact > 1e-5
    torch.set_flush_denormal(flush)
    squares, found = left.square().sum(), gram_product(left, right)[0]
    torch.set_flush_denormal(False)
    assert squares == 0
    assert found >= exact


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
@pytest.mark.parametrize("autocast", [False, True])
def test_terms_that_cancel_do_not_hide_behind_lower_precision(precision, autocast):
    torch.manual_seed(0)
    left, right = torch.randn(8, 64, 64), torch.randn(8, 64, 64)
    left, right = torch.cat([left, -left * 1.001], 1), torch.cat([right, right], 1)
    plain = gram_product(left, right)[0]
    torch.set_float32_matmul_precision(precision)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        found = gram_product(left, right)[0]
    torch.set_float32_matmul_precision("highest")
    assert torch.equal(found, plain)
    assert (found >= by_definition(left, right)).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES[2:])
def test_no_length_in_a_secret_order_is_below_half_of_that_of_all_terms(shape, dtype):
    """So all terms are at most 2 sqrt(T) times as long: docs/rounding.md. One term is as long as its sum."""
    left, right = _pair(7, shape, dtype)
    terms = left.double().norm(dim=2) * right.double().norm(dim=2)
    found = gram_product(left, right)[1].double()
    expected = terms.square().sum(1) / (4 if shape[0] > 1 else 1)
    assert (found >= expected).all()
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=0)
    longest = 2 * shape[0] ** 0.5 if shape[0] > 1 else 1
    assert (terms.sum(1) <= longest * found.sqrt()).all()
