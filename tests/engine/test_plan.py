"""The choice of kernels: by formula where it is clear, measured and remembered where not."""

import pytest
import torch

from fl_dp.engine.convolution import Conv, Geometry
from fl_dp.engine.forms import Dense, Outer
from fl_dp.engine.plan import Planner


def _outer(T, p, d, n=8):  # noqa: N803
    return Outer(torch.randn(n, T, p), torch.randn(n, T, d))


def test_the_formula_decides_clear_cases_without_measuring():
    planner = Planner()
    assert planner.kernel(_outer(T=2, p=64, d=64)) == "ghost"
    assert planner.kernel(_outer(T=64, p=2, d=2)) == "instantiate"
    assert planner.kernel(Dense(torch.randn(2, 3))) == "instantiate"
    assert planner.chosen == {}


def test_close_cases_are_measured_once_a_signature():
    planner, form = Planner(), _outer(T=8, p=8, d=16)
    first = planner.kernel(form)
    assert first in form.kernels
    assert planner.chosen == {form.signature: first}
    planner.chosen[form.signature] = "instantiate"
    assert planner.kernel(_outer(T=8, p=8, d=16, n=11)) == "instantiate"  # Poisson batches differ in size


@pytest.mark.parametrize(("T", "kernel"), [(7, "ghost"), (9, "instantiate")])
def test_the_formula_decides_close_cases_of_few_examples(T, kernel):  # noqa: N803
    planner = Planner()
    assert planner.kernel(_outer(T=T, p=8, d=16, n=3)) == kernel
    assert planner.chosen == {}


@pytest.mark.parametrize("mode", ["ghost", "instantiate"])
def test_a_mode_is_obeyed(mode):
    assert Planner(mode).kernel(_outer(T=64, p=2, d=2)).startswith(mode)
    assert Planner(mode).kernel(_outer(T=1, p=64, d=64)).startswith(mode)


def test_all_kernels_of_a_convolution_agree():
    geometry = Geometry((3, 2), (2, 1), (1, 0), (1, 2), 2)
    x, g = torch.randn(6, 4, 7, 8), torch.randn(6, 6, 4, 6)
    form = Conv(g, x, 2, geometry)  # two images an example
    factors = torch.tensor([0.5, 0.0, 2.0])
    kept = [form.keep(kernel) for kernel in form.kernels]
    for other in kept[1:]:
        torch.testing.assert_close(other.norm_squared, kept[0].norm_squared, rtol=1e-3, atol=1e-3)
        for rows in (None, torch.tensor([0, 2])):
            torch.testing.assert_close(
                other.weighted_sum(factors, rows), kept[0].weighted_sum(factors, rows), rtol=1e-4, atol=1e-4
            )
