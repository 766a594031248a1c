"""Steps are counted by weights and by data set: no second engine and no earlier state lowers a count."""

import copy
import gc
import math

import pytest
import torch
from attached import attached, losses_of, small_batch, small_engine, small_model
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Subset, TensorDataset

from fl_dp import PoissonSampler
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.errors import ConfigError
from fl_dp.records import Entry

pytestmark = pytest.mark.filterwarnings("ignore::fl_dp.errors.AssumedSamplingWarning")
X, Y = small_batch()


def take(model, optimizer, steps):
    for _ in range(steps):
        optimizer.step(loss=losses_of(model, X, Y))


def epsilon(*entries):
    return compute_epsilon([Entry(0.01, *one) for one in entries], 1e-5)


def told(engine):
    return {one.name: one.told for one in engine.get_privacy_spent().assumed}


def test_a_second_engine_over_the_same_weights_is_refused_with_two_ways_on():
    model, optimizer, engine = attached()
    take(model, optimizer, 8)
    second = small_engine(model, noise_multiplier=2.0)
    other = torch.optim.Adam(model.parameters())
    with pytest.raises(ConfigError, match=r"(?s)over these weights.*detach\(\).*one optimizer with several"):
        second.attach(other)
    assert not hasattr(other, "privacy_engine")
    engine.detach()
    second.attach(other)  # the first way on
    take(model, other, 3)
    spent = second.get_privacy_spent()
    assert (spent.steps, second.steps, engine.get_privacy_spent().steps) == (11, 3, 11)
    assert spent.epsilon == epsilon((1.0, 8), (2.0, 3))
    assert "8 steps of these are of other engines" in told(second)["other engines"]


def test_a_part_of_the_model_that_another_engine_trains_is_refused_too():
    model, optimizer, engine = attached()
    take(model, optimizer, 1)
    larger = nn.Sequential(model, nn.Tanh(), nn.Linear(3, 2))
    model.requires_grad_(False)
    head = small_engine(larger, noise_multiplier=1.0)
    with pytest.raises(ConfigError, match="over weights of this model"):
        head.attach(torch.optim.SGD(larger[2].parameters()))
    engine.detach()
    head.attach(torch.optim.SGD(larger[2].parameters()))
    assert head.get_privacy_spent().steps == 1


def test_a_cell_of_a_notebook_that_runs_again_continues_the_count():
    """The old engine is garbage by then, though nothing has collected it."""
    model, gained = small_model(), []
    gc.disable()
    try:
        for _ in range(3):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            engine = small_engine(model, noise_multiplier=1.0)
            engine.attach(optimizer)
            take(model, optimizer, 8)
            gained.append(engine.get_privacy_spent().steps)
    finally:
        gc.enable()
    assert gained == [8, 16, 24]


def test_public_weights_begin_anew_and_the_line_says_so():
    model, optimizer, engine = attached()
    take(model, optimizer, 5)
    engine.detach()
    anew = small_engine(model, noise_multiplier=1.0, public_weights=True)
    anew.attach(optimizer)
    take(model, optimizer, 1)
    assert anew.get_privacy_spent().steps == 1
    assert "5 steps of earlier engines over them are not counted" in told(anew)["public weights"]
    anew.detach()
    anew.attach(optimizer)  # its own steps are not forgotten
    assert anew.get_privacy_spent().steps == 1


def train_on(dataset, model, steps=3, **options):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine = small_engine(model, noise_multiplier=1.0, sample_size=len(dataset), **options)
    sampler = PoissonSampler(len(dataset), expected_batch_size=10, physical_batch_size=99, steps=steps)
    engine.attach(optimizer, sampler=sampler)
    for batches in sampler.logical_batches(DataLoader(dataset, batch_sampler=sampler)):
        for x, y in batches:
            optimizer.virtual_step(loss=losses_of(model, x, y))
        optimizer.step(loss=None)
    return engine


@pytest.mark.parametrize("again", [lambda data: data, lambda data: TensorDataset(*data.tensors)])
def test_another_model_on_the_same_data_set_is_refused_and_then_continues_the_count(again):
    dataset = TensorDataset(*small_batch(40))
    engine = train_on(dataset, small_model())
    with pytest.raises(ConfigError, match="over this data set"):
        train_on(again(dataset), small_model())
    engine.detach()
    second = train_on(again(dataset), small_model(), public_weights=True)  # which are not the records
    assert (second.get_privacy_spent().steps, second.steps) == (6, 3)
    second.detach()
    assert train_on(TensorDataset(*small_batch(40)), small_model()).get_privacy_spent().steps == 3, "others"


def test_early_stopping_that_loads_the_best_state_back_takes_no_step_back():
    """As people write it: 420 steps, and the state after 40 of them is the best."""
    model, optimizer, engine = attached()
    best, parts = None, {"model": model, "optimizer": optimizer, "engine": engine}
    for step in range(1, 43):
        take(model, optimizer, 1)
        if step == 4:
            best = copy.deepcopy({name: part.state_dict() for name, part in parts.items()})
    for name, part in parts.items():
        part.load_state_dict(best[name])
    spent = engine.get_privacy_spent()
    assert (engine.steps, spent.steps, spent.epsilon) == (42, 42, epsilon((1.0, 42)))
    assert "38 steps that an earlier state took back count" in told(engine)["steps taken back"]
    take(model, optimizer, 2)
    engine.load_state_dict(best["engine"])
    assert engine.get_privacy_spent().steps == 44


def test_a_state_of_another_process_says_what_may_be_missing():
    model, optimizer, engine = attached()
    take(model, optimizer, 4)
    state = engine.state_dict()
    take(model, optimizer, 1)
    resumed_model, resumed_optimizer, resumed = attached()
    resumed.load_state_dict(state)
    take(resumed_model, resumed_optimizer, 2)
    spent = resumed.get_privacy_spent()
    assert (spent.steps, spent.epsilon, resumed.steps) == (6, epsilon((1.0, 6)), 6)
    assert "no step was taken after the loaded state was saved" in told(resumed)["continued"]
    later = attached()[2]
    later.load_state_dict(resumed.state_dict())
    assert later.steps == 6
    assert {"continued", "draws", "losses"} <= told(later).keys(), "what was not seen before stays unseen"


def test_a_new_engine_over_the_same_weights_that_loads_the_old_one_s_state_counts_its_steps_once():
    model, optimizer, engine = attached()
    take(model, optimizer, 4)
    state = engine.state_dict()
    take(model, optimizer, 2)
    engine.detach()
    second = small_engine(model, noise_multiplier=1.0)
    second.load_state_dict(state)
    second.attach(optimizer)
    take(model, optimizer, 1)
    assert second.get_privacy_spent().steps == 7


def test_steps_without_an_engine_between_two_engines_count_for_the_second_too():
    model, optimizer, engine = attached()
    take(model, optimizer, 2)
    engine.detach()
    optimizer.zero_grad()
    losses_of(model, X, Y).mean().backward()
    optimizer.step()
    second = small_engine(model, noise_multiplier=1.0)
    optimizer.zero_grad()
    second.attach(optimizer)
    take(model, optimizer, 1)
    assert second.get_privacy_spent().epsilon == math.inf
    assert str(second.get_privacy_spent()).startswith("NOT PRIVATE: 1 steps")


@pytest.mark.parametrize("records", [39, 41])
def test_a_data_set_of_another_size_than_the_sampler_s_is_refused(records):
    engine = small_engine(small_model(), noise_multiplier=1.0, sample_size=40)
    sampler = PoissonSampler(40, expected_batch_size=10, physical_batch_size=99)
    engine.attach(torch.optim.SGD(engine.module.parameters(), lr=0.1), sampler=sampler)
    loader = DataLoader(TensorDataset(*small_batch(records)), batch_sampler=sampler)
    with pytest.raises(ConfigError, match=rf"data set has {records} records, .*40: .*len\(dataset\)"):
        next(sampler.logical_batches(loader))


def test_fewer_steps_than_other_engines_took_have_no_price():
    model, optimizer, engine = attached()
    take(model, optimizer, 4)
    engine.detach()
    second = small_engine(model, noise_multiplier=1.0)
    second.attach(optimizer)
    with pytest.raises(ConfigError, match="steps=3 >= 4"):
        second.get_privacy_spent(steps=3)
    assert second.get_privacy_spent(steps=5).epsilon == epsilon((1.0, 5))


@pytest.mark.parametrize("is_attached", [True, False])
def test_a_part_that_the_engine_does_not_train_and_another_optimizer_does_is_not_private(is_attached):
    model = small_model()
    model[2].requires_grad_(False)
    engine = small_engine(model, noise_multiplier=1.0)
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
    engine.attach(optimizer)
    take(model, optimizer, 2)
    if not is_attached:
        engine.detach()
    model[2].requires_grad_(True)
    losses_of(model, X, Y).mean().backward()
    torch.optim.Adam(model[2].parameters()).step()
    model[2].requires_grad_(False)
    model[0].zero_grad()
    if not is_attached:
        engine.attach(optimizer)
    take(model, optimizer, 1)
    spent = engine.get_privacy_spent()
    assert (spent.epsilon, engine.steps) == (math.inf, 3)
    assert str(spent).startswith("NOT PRIVATE: 1 steps of an optimizer without an engine")
    assert "1 step of an optimizer without an engine" in told(engine)["other optimizers"]
    assert "other engines" not in told(engine)


def test_another_model_s_optimizer_takes_no_privacy():
    model, optimizer, engine = attached()
    other = small_model()
    losses_of(other, X, Y).mean().backward()
    torch.optim.SGD(other.parameters(), lr=0.1).step()
    take(model, optimizer, 1)
    assert engine.get_privacy_spent().epsilon == epsilon((1.0, 1))


FOLDS = {
    "of a data set": lambda data: Subset(data, range(10, 40)),
    "of its tensors": lambda data: Subset(TensorDataset(*data.tensors), [*range(10, 39), -1]),
    "of folds": lambda data: ConcatDataset(
        [Subset(Subset(data, range(20)), [3, 4]), Subset(data, range(30, 40))]
    ),
}


@pytest.mark.parametrize("fold", FOLDS)
def test_folds_of_one_data_set_count_together(fold):
    data = TensorDataset(*small_batch(40))
    engine = train_on(Subset(data, range(30)), small_model())
    with pytest.raises(ConfigError, match="over this data set"):
        train_on(FOLDS[fold](data), small_model())
    engine.detach()
    assert train_on(FOLDS[fold](data), small_model()).get_privacy_spent().steps == 6


REPEATED = {
    "indices": lambda data: Subset(data, [*range(20), 0]),
    "the same index from behind": lambda data: Subset(data, [0, -40, *range(1, 20)]),
    "the data set twice": lambda data: ConcatDataset([data, data]),
    "its tensors": lambda data: ConcatDataset([data, TensorDataset(*data.tensors)]),
    "oversampling": lambda data: ConcatDataset([data, *[Subset(data, range(10))] * 2]),
    "within a part": lambda data: Subset(ConcatDataset([data, Subset(data, range(10))]), range(45)),
}


@pytest.mark.parametrize("case", REPEATED)
def test_a_record_in_several_places_is_refused(case):
    data = TensorDataset(*small_batch(40))
    with pytest.raises(ConfigError, match="a record would be drawn more often than its rate"):
        train_on(REPEATED[case](data), small_model())


def test_state_of_an_optimizer_before_the_engine_s_says_the_right_order():
    """Resumed in the order: the optimizer's state, attach, the engine's state."""
    model, optimizer, engine = attached(optimizer_class=torch.optim.Adam)
    take(model, optimizer, 2)
    states = optimizer.state_dict(), engine.state_dict()
    for is_right in (False, True):
        model = small_model()
        resumed = small_engine(model, noise_multiplier=1.0)
        optimizer = torch.optim.Adam(model.parameters())
        optimizer.load_state_dict(states[0])
        if is_right:
            resumed.load_state_dict(states[1])
        resumed.attach(optimizer)
        resumed.load_state_dict(states[1])
        take(model, optimizer, 1)
        assert ("engine.load_state_dict first, then attach()" in str(resumed.get_privacy_spent())) != is_right
