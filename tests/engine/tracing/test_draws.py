"""Every place draws the same number: only the place itself is left to matter. Other sources are refused."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.engine.probe import probe
from fl_dp.engine.steady_rows import check_steady
from fl_dp.engine.tracing.draws import LEVELS, Watch
from fl_dp.engine.tracing.mixing import find_mixing
from fl_dp.errors import ProbeError

SEED = 5
ONES = torch.ones(3, 4)

# Each gives a tensor; at a level all of its entries are alike, whatever its shape.
DRAWS = {
    "bernoulli": lambda: torch.bernoulli(ONES / 2),
    "bernoulli_": lambda: ONES.clone().bernoulli_(0.5),
    "bernoulli_ of chances": lambda: ONES.clone().bernoulli_(ONES / 2),
    "dropout": lambda: F.dropout(ONES, 0.5),
    "native dropout": lambda: torch.native_dropout(ONES, 0.5, True)[0],
    "its mask": lambda: torch.native_dropout(ONES, 0.5, True)[1],
    "of channels": lambda: F.dropout1d(ONES[:, :, None], 0.5),
    "alpha dropout": lambda: F.alpha_dropout(ONES, 0.5, training=True),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", DRAWS)
def test_all_entries_of_a_draw_are_alike_at_a_level(case, level):
    with Watch(SEED, level) as watch:
        drawn = DRAWS[case]()
    assert watch.drew
    assert (drawn == drawn.flatten()[0]).all()
    assert drawn.double().isfinite().all()


@pytest.mark.parametrize("case", DRAWS)
def test_without_a_level_numbers_are_those_of_the_seed(case):
    torch.manual_seed(SEED)
    expected = DRAWS[case]()
    with Watch(SEED) as watch:
        assert torch.equal(DRAWS[case](), expected)
    assert watch.drew


OTHERS = {
    "rand": lambda: torch.rand(3, 4),
    "rand_like": lambda: torch.rand_like(ONES),
    "randn": lambda: torch.randn(3, 4),
    "randn_like": lambda: torch.randn_like(ONES),
    "randint": lambda: torch.randint(2, 9, (3, 4)),
    "randperm": lambda: torch.randperm(4),
    "normal": lambda: torch.normal(ONES, 2.0),
    "uniform_": lambda: ONES.clone().uniform_(-1.0, 5.0),
    "normal_": lambda: ONES.clone().normal_(1.0, 2.0),
    "exponential_": lambda: F.gumbel_softmax(ONES),
    "cauchy_": lambda: ONES.clone().cauchy_(),
    "log_normal_": lambda: ONES.clone().log_normal_(),
    "geometric_": lambda: ONES.clone().geometric_(0.3),
    "random_": lambda: ONES.clone().random_(),
    "multinomial": lambda: torch.multinomial(ONES * torch.arange(4.0), 1),
    "poisson": lambda: torch.poisson(ONES * 3),
    "binomial": lambda: torch.binomial(ONES * 5, ONES / 2),
    "_standard_gamma": lambda: torch._standard_gamma(ONES * 2),
    "_sample_dirichlet": lambda: torch._sample_dirichlet(ONES),
    "rrelu_with_noise": lambda: F.rrelu(-ONES, training=True),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize(("seed", "level"), [(SEED, None), (SEED, LEVELS[0]), (None, None)])
def test_other_distributions_are_refused_by_name_with_what_to_do(name, seed, level):
    with (
        pytest.raises(ProbeError, match=rf"by aten\.{name}; only those of dropout .* when the data are read"),
        Watch(seed, level),
    ):
        OTHERS[name]()


def test_a_model_is_refused_that_adds_noise_of_its_own():
    class Noisy(nn.Linear):
        def forward(self, x):
            return super().forward(x) + torch.randn(len(x), 1)

    with pytest.raises(ProbeError, match=r"by aten\.randn; "):
        probe(Noisy(4, 3), torch.randn(5, 4))


@pytest.mark.parametrize(
    "masked",
    [
        lambda x: x * torch.empty_like(x).bernoulli_(0.5),
        lambda x: x * (1 - torch.empty_like(x).bernoulli_(0.4)),
        lambda x: F.dropout(x, 0.5),
        lambda x: F.dropout(x, 0.9),
        lambda x: F.dropout(x, 0.4) * torch.ones(len(x), 1).bernoulli_(0.6) * (1 - torch.bernoulli(x * 0.4)),
    ],
)
def test_at_some_level_a_mask_hides_nothing_however_it_is_written(masked):
    kept = []
    for level in LEVELS:
        with Watch(SEED, level):
            kept.append(bool(masked(ONES).all()))
    assert any(kept)


def test_attention_drops_as_all_others_do():
    q = torch.randn(2, 1, 5, 4)
    with Watch(SEED, LEVELS[0]) as watch:
        dropped = F.scaled_dot_product_attention(q, q, q, dropout_p=0.2)
    assert watch.drew
    torch.testing.assert_close(dropped, F.scaled_dot_product_attention(q, q, q) / 0.8)
    with Watch(SEED, LEVELS[0]) as watch:
        F.scaled_dot_product_attention(q, q, q)
        F.dropout(q, 0.5, training=False)
        F.rrelu(q, training=False)
        torch.native_dropout(q, 0.5, False)
    assert not watch.drew


def test_the_global_generator_may_be_named():
    with Watch(SEED, 0.5) as watch:
        torch.bernoulli(ONES / 2, generator=torch.default_generator)
    assert watch.drew


def _seeds_for_a_while() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED + 1)
        F.dropout(ONES)


OTHER_SOURCES = {
    "a generator": lambda: torch.rand(3, generator=torch.Generator()),
    "in place": lambda: torch.ones(3).bernoulli_(0.5, generator=torch.Generator()),
    "seeds": lambda: torch.manual_seed(SEED + 1),
    "seeds for a while": _seeds_for_a_while,
    "a state of its own": lambda: torch.set_rng_state(torch.Generator().get_state()),
}


@pytest.mark.parametrize("case", OTHER_SOURCES)
@pytest.mark.parametrize("level", [None, LEVELS[0]])
def test_other_sources_are_refused(case, level):
    with pytest.raises(ProbeError, match="generator of its own, or seeds"), Watch(SEED, level):
        OTHER_SOURCES[case]()


def test_a_state_of_the_same_pass_may_be_used_again():
    """Checkpoints do so: the masks are the same, and still nobody knows them."""
    with Watch(SEED):
        state = torch.get_rng_state()
        first = F.dropout(ONES)
        torch.set_rng_state(state)
        assert torch.equal(first, F.dropout(ONES))


def test_errors_inside_are_not_hidden():
    with pytest.raises(KeyError), Watch(SEED):
        {torch.manual_seed(SEED + 1).initial_seed(): 0}[SEED]


def test_the_coarsest_type_is_seen():
    with Watch(SEED) as watch:
        (ONES.bfloat16() * 2).double().to(torch.int64)
    assert watch.eps == torch.finfo(torch.bfloat16).eps
    with Watch(SEED) as watch:
        torch.arange(3) + 1
    assert watch.eps == 0.0


@pytest.mark.parametrize(
    "drawn",
    [
        lambda n: F.dropout(torch.arange(1.0, n + 1), 0.9),
        lambda n: torch.bernoulli(torch.full((n,), 0.01)),
        lambda n: torch.empty(n).bernoulli_(0.01),
        lambda n: torch.native_dropout(torch.arange(1.0, n + 1), 0.9, True)[0],
    ],
)
def test_without_a_seed_rows_are_those_of_a_smaller_batch_and_the_generator_stays(drawn):
    torch.manual_seed(0)
    state = torch.get_rng_state()
    with Watch(None):
        assert torch.equal(drawn(17)[:5], drawn(5))
        assert torch.equal(drawn(17)[:1], drawn(1))
        assert drawn(17).all()  # masks drop nothing
    assert torch.equal(torch.get_rng_state(), state)


def test_a_single_number_is_drawn_as_ever():
    """A coin for the whole batch is the same for every row; it must fall as it does in training."""
    half = torch.tensor(0.5)
    torch.manual_seed(0)
    expected = [float(torch.bernoulli(half)) for _ in range(20)]
    torch.manual_seed(0)
    with Watch(None):
        assert [float(torch.bernoulli(half)) for _ in range(20)] == expected


def test_no_gpu_that_is_first_used_later_is_seeded(monkeypatch):
    """`torch.manual_seed` leaves its seed for them, which no restored state takes back."""

    def seeded(seed):
        raise AssertionError("a known seed is left behind")

    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded)
    probe(nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5)), torch.randn(5, 4))
    assert find_mixing(lambda x: F.dropout(x, 0.5).sum(1), torch.randn(9, 4), thorough=True) is None
    weights = {"w": torch.ones(4)}
    check_steady(lambda _, batch: batch[0][:, 0], lambda n: (torch.randn(n, 4),), weights, KernelChooser(), 8)
