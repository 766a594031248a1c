"""A loop of one's own: ways to another step, or another account, of which the printed line says nothing."""

import gc

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import ConcatDataset, DataLoader, Dataset, TensorDataset

from fl_dp import Ledger, PoissonSampler, PrivacyEngine
from fl_dp.errors import ConfigError, DeclinedError
from fl_dp.privacy_engine.engine import Steps

N = 60


def records(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(N, 4, generator=generator), torch.arange(N) % 3


class Loop:
    def __init__(self, **options):
        self.model = model = nn.Linear(4, 3)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.engine = PrivacyEngine(
            model,
            batch_size=10,
            sample_size=N,
            max_grad_norm=1.0,
            noise_multiplier=2.0,
            losses_of=lambda x, y: F.cross_entropy(model(x), y, reduction="none"),
            **options,
        )

    def over(self, dataset):
        return self.engine.attach(self.optimizer, loader=DataLoader(dataset, batch_size=10))

    def turn(self, batch):
        self.engine.loss(*batch).backward()
        self.optimizer.step()


@pytest.mark.parametrize("workers", [0, 2])
def test_two_loops_over_one_sampler_never_take_a_draw_twice(workers):
    loop, dataset = Loop(), TensorDataset(*records())
    sampler = PoissonSampler(N, expected_batch_size=10, physical_batch_size=N)
    loop.engine.attach(loop.optimizer, sampler=sampler)

    def begun():
        loader = DataLoader(dataset, batch_sampler=sampler, num_workers=workers)
        return iter(sampler.logical_batches(loader))

    def step(batches):
        for x, y in batches:
            loop.optimizer.virtual_step(loss=loop.engine.losses(x, y))
        loop.optimizer.step(loss=None)

    first = begun()
    step(next(first))
    later = begun()
    step(next(later))
    with pytest.raises(ConfigError, match="Another loop over this sampler has begun"):
        next(first)
    step(next(later))
    assert loop.engine.steps == 3


def test_the_rest_of_a_draw_is_not_read_from_an_older_loop():
    sampler = PoissonSampler(N, expected_batch_size=30, physical_batch_size=5, steps=3)
    loader = DataLoader(TensorDataset(*records()), batch_sampler=sampler)
    older = next(iter(sampler.logical_batches(loader)))
    next(older)
    newer = iter(sampler.logical_batches(loader))
    next(newer)
    with pytest.raises(ConfigError, match="Another loop over this sampler has begun"):
        next(older)


def test_a_step_that_is_interrupted_before_its_noise_leaves_draws_and_noise_together(tmp_path, monkeypatch):
    dataset = TensorDataset(*records())
    account = Ledger.open(tmp_path / "l.sqlite").account("a", records=dataset, epsilon=8.0)
    loop = Loop(account=account, run="r")
    loader = loop.over(dataset)
    batches, used, take = iter(loader), [], Steps.take

    def interrupted(self, examples, unseen):
        used.append(take(self, examples, unseen))
        if len(used) == 2:
            raise KeyboardInterrupt
        return used[-1]

    payments = type(loop.engine._payments)
    noises, usual = [], payments.take
    monkeypatch.setattr(payments, "take", lambda self, drawn: noises.append(usual(self, drawn)) or noises[-1])
    monkeypatch.setattr(Steps, "take", interrupted)
    loop.turn(next(batches))
    with pytest.raises(KeyboardInterrupt):
        loop.turn(next(batches))
    loop.engine._turns.drop()
    loop.turn(next(batches))
    assert noises == [used[0], used[2]]


def test_another_data_set_beside_the_same_index_is_not_the_accounts(tmp_path):
    index, (mine, targets), (other, _) = torch.arange(N), records(), records(seed=1)
    account = Ledger.open(tmp_path / "l.sqlite").account(
        "a", records=TensorDataset(mine, targets), epsilon=8.0
    )
    for tensors in ((mine, index), (other, targets)):
        loop = Loop(account=account, run="r")  # kept: a loop without its engine is refused for that
        with pytest.raises(ConfigError, match="not that of account a"):
            next(iter(loop.over(TensorDataset(*tensors))))


@pytest.mark.parametrize("how", ["written", "exchanged"])
def test_records_that_change_after_the_account_was_opened_are_refused(tmp_path, how):
    dataset = TensorDataset(*records())
    account = Ledger.open(tmp_path / "l.sqlite").account("a", records=dataset, epsilon=8.0)
    if how == "written":
        dataset.tensors[0].copy_(records(seed=1)[0])
    else:
        dataset.tensors = records(seed=1)
    with pytest.raises(ConfigError, match="since it was opened"):
        next(iter(Loop(account=account, run="r").over(dataset)))
    assert not account.spent().charges


def test_an_account_that_is_retired_and_opened_for_others_does_not_pay(tmp_path):
    dataset, other = TensorDataset(*records()), TensorDataset(*records(seed=1))
    ledger = Ledger.open(tmp_path / "l.sqlite")
    account = ledger.account("a", records=dataset, epsilon=8.0)
    loop = Loop(account=account, run="r", steps_per_payment=1)
    batches = iter(loop.over(dataset))
    loop.turn(next(batches))
    ledger.retire("a")
    ledger.account("a", records=other, epsilon=8.0)
    with pytest.raises(DeclinedError, match="Account a was retired"):
        loop.turn(next(batches))


def test_plain_steps_after_an_engine_that_is_gone_are_counted():
    loop, dataset = Loop(), TensorDataset(*records())
    for batch in loop.over(dataset):
        loop.turn(batch)
    model, optimizer = loop.model, loop.optimizer
    loop.engine.detach()
    del loop, batch
    gc.collect()
    optimizer.zero_grad()
    F.cross_entropy(model(dataset.tensors[0]), dataset.tensors[1]).backward()
    optimizer.step()
    optimizer.zero_grad()
    later = PrivacyEngine(model, batch_size=10, sample_size=N, max_grad_norm=1.0, noise_multiplier=2.0)
    later.attach(optimizer)
    assert str(later.get_privacy_spent()).startswith("NOT PRIVATE: 1 ")


def test_a_data_set_without_a_length_is_refused():
    class Wrapping(Dataset):
        def __getitem__(self, index):
            x, y = records()
            return x[index % N], y[index % N]

    with pytest.raises(ConfigError, match="no __len__"):
        next(iter(Loop().over(Wrapping())))


def test_new_views_of_the_same_memory_are_the_same_records():
    x, y = records()
    first, second = Loop(), Loop()
    for batch in first.over(TensorDataset(x, y)):
        first.turn(batch)
    first.engine.detach()
    for batch in second.over(TensorDataset(x[:], y[:])):
        second.turn(batch)
    assert [one.name for one in second.engine.get_privacy_spent().assumed] == ["other engines"]
    twice = ConcatDataset([TensorDataset(x[:30], y[:30]), TensorDataset(x[:30], y[:30])])
    with pytest.raises(ConfigError, match="in several places"):
        next(iter(Loop().over(twice)))


def test_losses_that_are_kept_hold_no_sum():
    loop, dataset = Loop(), TensorDataset(*records())
    kept = []
    for batch in loop.over(dataset):
        kept.append(loss := loop.engine.loss(*batch))
        loss.backward()
        loop.optimizer.step()
    for loss in kept:
        cells = [cell.cell_contents for cell in loss.grad_fn.meant.__closure__]
        assert [one.clipped for one in cells if hasattr(one, "clipped")] == [None]
