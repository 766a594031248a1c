"""Promise: norm times factor never exceeds C, whatever the norm. Definition: each paper's formula."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fl_dp.engine.clip_functions import clip_function
from fl_dp.errors import ConfigError

FUNCTIONS = [
    clip_function("abadi"),
    clip_function("automatic"),
    clip_function("automatic", gamma=1e-30),
]
FORMULAS = {
    "abadi": ({}, lambda x, c: min(1.0, c / x) if x else 1.0),
    "automatic": ({"gamma": 0.02}, lambda x, c: c / (x + 0.02)),
}
EDGES = [0.0, 1e-45, 1.2e-38, 1e-20, 1.0, 3.0, 1e19, 3.4e38, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("bound", [1e-3, 1.0, 40.0])
def test_equals_the_formula_of_the_paper(name, bound):
    settings, formula = FORMULAS[name]
    norms = torch.tensor([0.0, 1e-9, 1e-3, 0.5, 1.0, 1.9, 2.0, 2.1, 30.0, 1e6], dtype=torch.float64)
    expected = torch.tensor([formula(float(x), bound) for x in norms], dtype=torch.float64)
    torch.testing.assert_close(clip_function(name, **settings).factors(norms, bound), expected)


@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
@given(
    norm=st.one_of(st.sampled_from(EDGES), st.floats(0, 2.0**127, width=32)),
    bound=st.floats(1e-12, 1e12),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_norm_times_factor_never_exceeds_the_bound(function, norm, bound, dtype):
    norms = torch.tensor([norm], dtype=dtype)
    factors = function.factors(norms, bound)
    assert factors.dtype == dtype
    assert factors.isfinite().all()
    if not norms.isfinite().all():
        assert factors.item() == 0.0
    else:
        assert 0.0 <= norms.item() * factors.item() <= bound * (1 - torch.finfo(dtype).eps)


def test_a_short_gradient_is_left_exactly_as_it_is_by_abadi():
    assert clip_function("abadi").factors(torch.tensor([0.0, 1e-9, 0.5, 0.999]), 1.0).eq(1.0).all()


def test_an_infinite_bound_clips_nothing_and_is_for_abadi_alone():
    abadi, automatic = clip_function("abadi"), clip_function("automatic")
    abadi.check_bound(math.inf)
    assert abadi.factors(torch.tensor([0.0, 3.0, math.inf]), math.inf).tolist() == [1.0, 1.0, 0.0]
    with pytest.raises(ConfigError, match="max_grad_norm=inf"):
        automatic.check_bound(math.inf)


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("Abadi", {}, "'Abadi': expected one of abadi, automatic"),
        ("automatic", {"Z": 1.0}, "'automatic' has no setting 'Z'; it has gamma"),
        ("abadi", {"gamma": 1.0}, "it has none"),
        ("automatic", {"gamma": 0.0}, "expected gamma=0.0 > 0"),
        ("automatic", {"gamma": math.nan}, "expected gamma=nan > 0"),
        ("automatic", {"gamma": math.inf}, "expected gamma=inf > 0 and finite"),
    ],
)
def test_what_does_not_exist_or_bounds_nothing_is_refused(name, settings, words):
    with pytest.raises(ConfigError, match=words):
        clip_function(name, **settings)
