"""Entries: merging changes no number, and their size is never understated."""

import pytest

from fl_dp.accounting.events import merge, order_two_divergence
from fl_dp.records import Entry


def test_equal_mechanisms_merge_wherever_they_stand():
    entries = [Entry(0.2, 1.0, 3), Entry(0.1, 1.0, 1), Entry(0.2, 1.0, 4), Entry(0.2, 2.0, 1)]
    merged = (Entry(0.1, 1.0, 1), Entry(0.2, 1.0, 7), Entry(0.2, 2.0, 1))
    assert merge(entries) == merge(reversed(entries)) == merge(merged) == merged
    assert merge([]) == ()


@pytest.mark.parametrize("noise_multiplier", [0.5, 1.0, 10.0])
def test_without_sampling_the_divergence_is_the_gaussian_one(noise_multiplier):
    assert order_two_divergence(Entry(1.0, noise_multiplier, 1)) == pytest.approx(noise_multiplier**-2)
