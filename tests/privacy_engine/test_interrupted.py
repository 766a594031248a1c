"""A loop that an error ended goes on: the draw that had no step is handed out again, whole, and pays once."""

import pytest
import torch
from attached import losses_of, small_batch, without_noise
from definition import clipped_one_by_one
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from fl_dp import PoissonSampler
from fl_dp.errors import ConfigError

pytestmark = pytest.mark.filterwarnings("ignore::fl_dp.errors.AssumedSamplingWarning")
RECORDS, BOUND = 40, 0.1


class InterruptedCellError(Exception):
    pass


class Loop:
    """A cell of a notebook. handed: the records of each turn."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Linear(6, 3)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1.0)
        self.engine = without_noise(self.model, sample_size=RECORDS, max_grad_norm=BOUND)
        self.sampler = PoissonSampler(RECORDS, expected_batch_size=10, physical_batch_size=2, steps=3)
        self.engine.attach(self.optimizer, sampler=self.sampler)
        self.x, self.y = small_batch(RECORDS)
        self.loader = DataLoader(
            TensorDataset(self.x, self.y, torch.arange(RECORDS)), batch_sampler=self.sampler
        )
        self.handed: list[list[int]] = []

    def run(self, stop=None, where="before"):
        """stop: the pass of the first draw at which an error comes, before or after its virtual step."""
        for batches in self.sampler.logical_batches(self.loader):
            self.handed.append([])
            for number, (x, y, which) in enumerate(batches):
                self.handed[-1] += which.tolist()
                if (number, where) == (stop, "before"):
                    raise InterruptedCellError
                self.optimizer.virtual_step(loss=losses_of(self.model, x, y))
                if (number, where) == (stop, "after"):
                    raise InterruptedCellError
            if stop is not None and where == "step":
                raise InterruptedCellError
            self.optimizer.step(loss=None)


@pytest.mark.parametrize("where", ["before", "after", "step"])
@pytest.mark.parametrize("again", ["a new loop", "detach and attach"])
def test_the_draw_is_handed_out_again_whole_and_its_sum_is_that_of_one_draw(where, again):
    loop = Loop()
    for stop in (0, 1):
        with pytest.raises(InterruptedCellError):
            loop.run(stop, where)
    if again == "detach and attach":
        loop.engine.detach()
        loop.engine.attach(loop.optimizer, sampler=loop.sampler)
    before = {name: parameter.detach().clone() for name, parameter in loop.model.named_parameters()}
    after = {}
    loop.optimizer.register_step_post_hook(
        lambda *_: after or after.update({n: p.detach().clone() for n, p in loop.model.named_parameters()})
    )
    loop.run()
    broken, also, whole = loop.handed[:3]
    assert broken
    assert broken == whole[: len(broken)]
    assert also == whole[: len(also)], "no draw is passed over"
    loop.model.load_state_dict(before)
    losses = (losses_of(loop.model, loop.x[i : i + 1], loop.y[i : i + 1]) for i in whole)
    for name, total in clipped_one_by_one(loop.model, losses, BOUND).items():
        torch.testing.assert_close(after[name], before[name] - total / 10)
    spent = loop.engine.get_privacy_spent()
    assert (loop.engine.steps, spent.steps, spent.sampling) == (3, 3, "seen")
    loop.engine.state_dict(), loop.sampler.state_dict()


def test_an_error_that_is_caught_within_a_draw_names_the_new_loop():
    loop = Loop()
    batches = next(iter(loop.sampler.logical_batches(loop.loader)))
    next(batches)
    for x, y, _ in batches:
        loop.optimizer.virtual_step(loss=losses_of(loop.model, x, y))
    with pytest.raises(ConfigError, match=r"fewer than the records.*a new loop.*this whole draw again"):
        loop.optimizer.step(loss=None)
    loop.run()
    assert loop.engine.steps == 3
