"""dp_accounting's epsilon: exactly its accountant's, and never far above a true one."""

import json
import math
from pathlib import Path

import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant

from fl_dp.records import Entry
from fl_dp.verify import independent
from fl_dp.verify.independent import ABSOLUTE, contradicts, epsilon_of, grid_interval

REFERENCE = Path(__file__).parents[1] / "accounting" / "data" / "reference.json"


@pytest.mark.parametrize(
    "charges",
    [
        (Entry(0.1, 1.5, 60),),
        (Entry(0.02, 1.1, 300), Entry(0.05, 1.3, 1)),
        (Entry(1.0, 10.0, 5), Entry(0.3, 4.0, 7)),
    ],
)
@pytest.mark.parametrize("fine", [False, True])
def test_it_is_the_pld_accountants_bit_for_bit(charges: tuple[Entry, ...], fine: bool) -> None:
    accountant = PLDAccountant(value_discretization_interval=grid_interval(charges, fine))
    events = [
        dp_event.SelfComposedDpEvent(
            dp_event.PoissonSampledDpEvent(one.sample_rate, dp_event.GaussianDpEvent(one.noise_multiplier)),
            one.steps,
        )
        for one in charges
    ]
    accountant.compose(dp_event.ComposedDpEvent(events))
    assert epsilon_of(charges, 1e-5, fine=fine) == accountant.get_epsilon(1e-5)


def test_no_true_epsilon_contradicts_it() -> None:
    """Upper bounds of two accountants, over sample rates to 1, noise 0.3 to 100 and deltas from 1e-12."""
    found = json.loads(REFERENCE.read_text())["settings"]
    quick = [row for row in found if row["steps"] < 100_000 and row["sample_rate"] > 1e-4]
    looked_at = 0
    for row in quick[::3]:
        charges = (Entry(row["sample_rate"], row["noise_multiplier"], row["steps"]),)
        for accountant in ("pld", "rdp"):
            claimed = row["ours"][accountant]
            if isinstance(claimed, float) and independent.can_resolve(charges, row["delta"]):
                looked_at += 1
                assert contradicts(claimed, charges, row["delta"]) is None, (accountant, row)
    assert looked_at > 40


@pytest.mark.parametrize("steps", [1, 60, 5000])
def test_a_claim_that_is_lower_by_a_percent_is_contradicted(steps: int) -> None:
    """Of an epsilon above a tenth; below that the margin is 0.001, which no report prints."""
    charges = (Entry(0.1, 1.5, steps),)
    truth = epsilon_of(charges, 1e-5, fine=True)
    assert contradicts(0.98 * truth - ABSOLUTE, charges, 1e-5) == pytest.approx(truth, rel=1e-3)
    assert contradicts(truth, charges, 1e-5) is None


@pytest.mark.parametrize(
    "charges",
    [
        (Entry(0.5, 0.0, 1),),
        (Entry(1.0, 0.01, 1),),
        (Entry(0.1, 1.0, 10**7),),
    ],
)
def test_what_protects_nothing_is_infinite(charges: tuple[Entry, ...]) -> None:
    assert epsilon_of(charges, 1e-5) == math.inf
    assert contradicts(1e9, charges, 1e-5) == math.inf
    assert contradicts(math.inf, charges, 1e-5) is None


def test_the_fine_grid_is_less_pessimistic() -> None:
    charges = (Entry(0.1, 1.5, 60),)
    assert epsilon_of(charges, 1e-5, fine=True) < epsilon_of(charges, 1e-5)


def test_a_delta_that_rounding_hides_is_not_resolved() -> None:
    assert independent.can_resolve((Entry(0.1, 1.5, 60),), 1e-5)
    assert not independent.can_resolve((Entry(0.1, 1.5, 100_000),), 1e-12)
    assert epsilon_of((), 1e-5) == 0.0


@pytest.mark.parametrize("noise", [0.03, 1e4, 1e6])
@pytest.mark.parametrize("rate", [1e-300, 1e-9, 1.0])
def test_odd_mechanisms_have_an_answer(rate: float, noise: float) -> None:
    assert epsilon_of((Entry(rate, noise, 2),), 1e-5) >= 0.0
