import math

import pytest

from benchmarks.largest_batch import Largest, largest_batch, over


def searched(peak_of, memory):
    tried = []

    def traced(batch):
        tried.append(batch)
        return peak_of(batch)

    return largest_batch(traced, memory), tried


@pytest.mark.parametrize("constant", [0, 3000])
@pytest.mark.parametrize("slope", [1, 60, 900])
def test_what_is_found_fits_and_a_tenth_more_does_not(constant, slope):
    found, tried = searched(lambda batch: constant + slope * batch, 4000)
    best = (4000 - constant) // slope
    assert found.batch <= best < found.too_large <= max(1.1 * found.batch, found.batch + 1)
    assert found.peak_bytes == (constant + slope * found.batch if found.batch else 0)
    assert len(tried) == len(set(tried))
    assert len(tried) <= 10


def test_few_batches_are_much_larger_than_what_fits():
    _, tried = searched(lambda batch: 100 + batch, 1000)
    assert max(tried) <= 1.1 * 900
    assert sum(tried) < 4 * 900


@pytest.mark.parametrize(
    ("peak_of", "memory", "least", "below"),
    [
        (lambda batch: batch if batch < 300 else 10**6, 1000, 270, 300),  # a jump
        (lambda batch: batch if batch <= 20 else math.inf, 10**9, 0, 21),  # a process without memory
        (lambda batch: 4096 if batch < 500 else 10**9, 10**6, 450, 500),  # memory that does not grow
    ],
)
def test_memory_that_is_not_linear_is_closed_in_upon(peak_of, memory, least, below):
    found, tried = searched(peak_of, memory)
    assert least < found.batch < below <= found.too_large
    assert tried[0] == 8


def test_not_even_one_example_may_fit():
    assert largest_batch(lambda batch: 10**9, 1000) == Largest(batch=0, peak_bytes=0, too_large=1)


def test_over_is_none_where_one_is_not_known():
    found = Largest(40, 1, 41)
    assert over(found, Largest(10, 1, 11)) == 4.0
    assert over(found, "refused: no") is None
    assert over(found, None) is None
    assert over(found, Largest(0, 0, 1)) is None
