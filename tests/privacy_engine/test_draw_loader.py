"""What a DataLoader becomes: draws in its place, all else kept, and what cannot be is refused by name."""

import pytest
import torch
from attached import small_batch, small_engine, small_model
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from fl_dp import PoissonSampler
from fl_dp.errors import ConfigError

RECORDS = 40
OURS = PoissonSampler(RECORDS, expected_batch_size=4, physical_batch_size=4)
DATA = TensorDataset(*small_batch(RECORDS))


def attached_to(loader, **options):
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    usual = {"batch_size": 4, "sample_size": RECORDS, "noise_multiplier": 1.0}
    engine = small_engine(model, **{**usual, **options})
    return engine, optimizer, engine.attach(optimizer, loader=loader)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(DATA)


class Own(DataLoader):
    pass


@pytest.mark.parametrize(
    ("loader", "words"),
    [
        (DataLoader(Stream(), batch_size=4), "IterableDataset cannot be drawn from"),
        (DataLoader(DATA, batch_sampler=BatchSampler(range(8), 4, False)), "a batch_sampler of"),
        (DataLoader(DATA, batch_sampler=[[0, 1]]), "a batch_sampler of your own"),
        (DataLoader(DATA, batch_sampler=OURS), "batch_size"),
        (DataLoader(DATA, batch_size=None), "a batch_sampler of your own .*; give batch_size"),
        (DataLoader(DATA, sampler=WeightedRandomSampler([1.0] * RECORDS, 9)), "WeightedRandomSampler"),
        (DataLoader(DATA, sampler=RandomSampler(DATA, replacement=True)), "RandomSampler would not draw"),
        (DataLoader(DATA, sampler=RandomSampler(DATA, num_samples=9)), "RandomSampler would not draw"),
        (DataLoader(DATA, batch_size=4, drop_last=True), "drop_last=True has nothing to drop"),
        (DataLoader(DATA, batch_size=4, in_order=False), "in_order=False would mix"),
        (Own(DATA), "expected loader= an ordinary torch.utils.data.DataLoader, not Own"),
        ([1, 2], "DataLoader, not list"),
    ],
)  # fmt: skip
def test_a_loader_that_could_not_draw_is_refused_by_name_and_nothing_is_attached(loader, words):
    with pytest.raises(ConfigError, match=words):
        attached_to(loader)


@pytest.mark.parametrize("shuffle", [False, True])
def test_draws_take_the_place_of_batches_and_all_else_is_kept(shuffle):
    calls = []

    def collate(records):
        calls.append(len(records))
        return torch.utils.data.default_collate(records)

    given = DataLoader(
        DATA, batch_size=7, shuffle=shuffle, collate_fn=collate, num_workers=0, pin_memory=False, timeout=0
    )
    engine, _, loader = attached_to(given)
    assert (len(loader), loader.batch_size, loader.dataset) == (10, 4, DATA)
    batches = list(loader)
    assert calls == [len(x) for x, _ in batches if len(x)]
    order = [DATA.tensors[0].tolist().index(row) for x, _ in batches for row in x.tolist()]
    assert len(set(order)) < len(order)  # a record may be in several draws
    assert engine.steps == 0


def test_workers_are_kept():
    _, _, loader = attached_to(DataLoader(DATA, batch_size=4, num_workers=1, persistent_workers=True))
    for _ in range(2):
        batches = list(loader)
        assert len(batches) == 10
    assert loader._loader.num_workers == 1
    assert loader._loader.persistent_workers


def test_an_empty_draw_is_a_batch_of_no_rows_of_which_the_collator_hears_nothing():
    """Whichever draw is the first empty one: the first of all as well."""
    first, sizes = set(), []

    def collate(records):
        sizes.append(len(records))
        return {"x": torch.stack([x for x, _ in records]), "y": [torch.stack([y for _, y in records])]}

    while first != {True, False}:
        _, _, loader = attached_to(DataLoader(DATA, batch_size=4, collate_fn=collate), batch_size=1)
        for i, batch in enumerate(loader):
            if not len(batch["x"]):
                assert batch["x"].shape == (0, 6)
                assert (batch["y"][0].shape, batch["y"][0].dtype) == ((0,), torch.int64)
                first.add(not i)
    assert 0 not in sizes


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"physical_batch_size": 0, "loader": DataLoader(DATA)}, "physical_batch_size=0 >= 1"),
        ({"physical_batch_size": 4}, "belongs to loader="),
        (
            {
                "loader": DataLoader(DATA),
                "sampler": OURS,
            },
            "leave out sampler=",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(given, words):
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ConfigError, match=words):
        small_engine(model, noise_multiplier=1.0).attach(optimizer, **given)
    assert not hasattr(optimizer, "privacy_engine")


def test_after_detach_a_loader_is_no_loop_any_more_and_another_can_be_attached():
    engine, optimizer, loader = attached_to(DataLoader(DATA, batch_size=4))
    next(iter(loader))
    engine.detach()
    with pytest.raises(ConfigError, match="needs PrivacyEngine"):
        engine.loss(*DATA.tensors)
    again = engine.attach(optimizer, loader=DataLoader(DATA, batch_size=4))
    assert len(list(again)) == 10
