"""The size found fits, is nearly the largest, and depends on peaks alone."""

import pytest
import torch

from fl_dp.engine.kernel_choice import physical_batch
from fl_dp.engine.kernel_choice.physical_batch import largest_batch, with_examples
from fl_dp.errors import ConfigError, ModelError

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _no_margin(monkeypatch):
    monkeypatch.setattr(physical_batch, "_CPU_MARGIN", 1.0)


class _Step:
    """Takes what `needed` says for n examples; remembers what it was asked for."""

    def __init__(self, needed):
        self.needed, self.sizes = needed, []

    def __call__(self, n):
        self.sizes.append(n)
        torch.zeros(self.needed(n), dtype=torch.uint8)


@pytest.mark.parametrize("margin", [1.0, 2.0])
@pytest.mark.parametrize("memory", [1024, 1100, 4000, 1_000_000])
def test_the_largest_that_fits_a_straight_line(memory, margin, monkeypatch):
    monkeypatch.setattr(physical_batch, "_CPU_MARGIN", margin)
    step = _Step(lambda n: 488 + 24 * n)
    largest = int(memory / margin - 488) // 24
    assert largest_batch(step, memory, CPU, at_most=10**6) == largest
    assert max(step.sizes) == max(2, largest)  # nothing larger was ever tried


@pytest.mark.parametrize("memory", [1000, 3000, 20_000, 100_000])
def test_where_another_moment_takes_the_lead_the_size_fits_all_the_same(memory):
    needed = lambda n: max(900 + n, 10 + 7 * n)  # noqa: E731
    step = _Step(needed)
    size = largest_batch(step, memory, CPU, at_most=10**6)
    assert needed(size) <= memory < needed(int(size * 1.1) + 2)
    assert needed(max(step.sizes)) <= 2 * memory


def test_what_is_found_has_been_run_and_the_runs_take_about_three_times_as_long():
    step = _Step(lambda n: 10 * n)
    size = largest_batch(step, 10_000, CPU, at_most=10**6)
    assert step.sizes[-1] == size == 1000
    assert sum(step.sizes) <= 3 * size + 2


@pytest.mark.parametrize("at_most", [1, 7, 100])
def test_never_more_than_asked_for(at_most):
    assert largest_batch(_Step(lambda n: n), 2**40, CPU, at_most=at_most) == at_most
    assert largest_batch(_Step(lambda n: 5), 2**40, CPU, at_most=at_most) == at_most


def test_what_is_set_up_once_does_not_count():
    def needed(n):
        return 10 * n if step.sizes[1:] else 10_000

    step = _Step(needed)
    assert largest_batch(step, 1000, CPU, at_most=10**6) == 100


@pytest.mark.parametrize("error", [torch.OutOfMemoryError(), RuntimeError("DefaultCPUAllocator: no memory")])
@pytest.mark.parametrize("limit", [1, 2, 3, 21])
def test_out_of_memory_halves_the_size(limit, error):
    """The memory that is stated may not be there."""

    def step(n):
        if n > limit:
            raise error
        torch.zeros(n)

    assert limit / 2 < largest_batch(step, 2**30, CPU, at_most=10**6) <= limit


def _runs_out(_):
    raise torch.OutOfMemoryError


@pytest.mark.parametrize("step", [_runs_out, _Step(lambda n: 2**22)])
def test_not_even_one_example_fits(step):
    with pytest.raises(ConfigError, match=r"Not even one example fits in 3 MiB; give the step more memory"):
        largest_batch(step, 3 * 2**20, CPU, at_most=64)


def test_other_errors_pass():
    with pytest.raises(ZeroDivisionError):
        largest_batch(lambda n: n // 0, 2**30, CPU, at_most=10**6)


def test_examples_are_repeated_and_all_else_is_kept():
    x, mask, y = torch.arange(6).view(3, 2), torch.zeros(2, 2), torch.tensor([7, 8, 9])
    batch = with_examples(({"x": x, "mask": mask, "flag": True}, (y, None)), 5)
    assert batch[0]["x"].tolist() == [[0, 1], [2, 3], [4, 5], [0, 1], [2, 3]]
    assert batch[0]["mask"] is mask
    assert batch[0]["flag"] is True
    assert batch[1][0].tolist() == [7, 8, 9, 7, 8]
    assert with_examples((x,), 1)[0].tolist() == [[0, 1]]


@pytest.mark.parametrize("batch", [(), (torch.tensor(1.0),), (torch.zeros(0, 3),), ("text",)])
def test_a_batch_without_examples_is_refused(batch):
    with pytest.raises((ConfigError, ModelError), match=r"no example to repeat|could hold examples"):
        with_examples(batch, 4)
