"""A loop over the loader of `attach` pays as one over a sampler does, whatever is fetched ahead."""

from collections import deque

import pytest
import torch
from attached import losses_of, small_batch, small_model
from torch.utils.data import DataLoader, TensorDataset

from fl_dp import Ledger, PrivacyEngine
from fl_dp.errors import BudgetExhaustedError
from fl_dp.records import total_steps

N = 40


class Turns:
    """A user's loop, on an account of the ledger at `path`."""

    def __init__(self, path, epsilon, **options):
        self.dataset = TensorDataset(*small_batch(N))
        self.ledger = Ledger.open(path)
        self.account = self.ledger.account("ehr", records=self.dataset, epsilon=epsilon, delta=1e-5)
        self.model = small_model()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.engine = PrivacyEngine(
            self.model,
            batch_size=10,
            sample_size=N,
            max_grad_norm=1.0,
            noise_multiplier=2.0,
            losses_of=lambda x, y: losses_of(self.model, x, y),
            account=self.account,
            run="job-7",
            **options,
        )
        self.loader = self.engine.attach(self.optimizer, loader=DataLoader(self.dataset, batch_size=5))

    def turn(self, batch):
        self.engine.loss(*batch).backward()
        self.optimizer.step()

    def epoch(self, ahead=0):
        waiting = deque()
        for batch in self.loader:
            waiting.append(batch)
            if len(waiting) > ahead:
                self.turn(waiting.popleft())
        while waiting:
            self.turn(waiting.popleft())

    def epochs(self, count, ahead):
        for _ in range(count):
            self.epoch(ahead)

    def paid(self):
        return total_steps(self.ledger.spent("ehr"))


@pytest.mark.parametrize("ahead", [0, 1, 3])
@pytest.mark.parametrize("options", [{}, {"steps_per_payment": 3}])
def test_turns_go_on_until_the_account_is_empty_and_all_that_was_paid_is_taken(tmp_path, ahead, options):
    turns = Turns(tmp_path / "ehr.sqlite", epsilon=1.5, **options)
    fits = turns.account.left(sample_rate=10 / N, noise_multiplier=2.0).steps
    assert fits % len(turns.loader), "the last pass is to be a short one"
    with pytest.raises(BudgetExhaustedError, match="Not one more step fits"):
        turns.epochs(fits, ahead)
    assert turns.engine.steps == turns.paid() == fits


def test_a_short_pass_is_followed_by_whole_ones_when_there_is_room_again(tmp_path):
    turns = Turns(tmp_path / "ehr.sqlite", epsilon=1.5)
    fits = turns.account.left(sample_rate=10 / N, noise_multiplier=2.0).steps
    turns.epochs(-(-fits // len(turns.loader)), ahead=2)
    assert turns.engine.steps == fits
    roomier = turns.ledger.account("ehr", records=turns.dataset, epsilon=9.0, delta=1e-5)
    object.__setattr__(turns.account, "budget", roomier.budget)  # frozen: as if its limit had been 9
    for taken in range(1, 4):
        turns.epoch(ahead=2)
        assert turns.engine.steps == turns.paid() == fits + taken * len(turns.loader)


def test_batches_that_were_fetched_ahead_of_a_loop_that_is_left_are_not_paid_for_twice(tmp_path):
    turns = Turns(tmp_path / "ehr.sqlite", epsilon=9.0)
    batches = iter(turns.loader)
    fetched = [next(batches) for _ in range(3)]
    turns.turn(fetched[0])
    again = iter(turns.loader)
    for batch in fetched[1:]:
        assert all(torch.equal(old, new) for old, new in zip(batch, next(again), strict=True))
    turns.epoch()
    assert turns.engine.steps == turns.paid() == len(turns.loader)
