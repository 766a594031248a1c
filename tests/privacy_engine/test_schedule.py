"""Tables: each step has its own multiplier and bound, in all its passes, and is priced as it was taken."""

import math

import numpy as np
import pytest
import torch
from attached import attached, losses_of, small_batch, small_engine, small_model

from fl_dp import add_gaussian_noise, clipped_grad_sum
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.engine.bounds import split_bound
from fl_dp.errors import ConfigError
from fl_dp.records import Entry

ASSUMED = pytest.mark.filterwarnings("ignore::fl_dp.errors.AssumedSamplingWarning")


@pytest.mark.parametrize("style", ["all-layer", "layer-wise"])
def test_each_step_has_the_multiplier_and_bound_of_its_entry_in_all_its_passes(style):
    """As by the plain functions, with the same generator; an empty step uses its entry up, too."""
    x, y = small_batch()
    seeded, generator = (torch.Generator().manual_seed(4) for _ in range(2))
    noise, bounds = [1.0, 3.0, 0.5], [0.1, 0.02, 0.3]
    model, optimizer, engine = attached(
        noise_multiplier=noise, max_grad_norm=bounds, clipping_style=style, generator=seeded
    )
    twin = small_model()
    parameters = dict(twin.named_parameters())
    for step in range(3):
        bound = bounds[step] if style == "all-layer" else split_bound(bounds[step], ["0", "2"])
        rows = [slice(0, 5), slice(5, 12)] if step != 1 else [slice(0, 0)]
        parts = [
            clipped_grad_sum(losses_of(twin, x[part], y[part]), parameters, max_grad_norm=bound)
            for part in rows
        ]
        clipped = parts[0] + parts[1] if step != 1 else parts[0]
        noisy = add_gaussian_noise(clipped, noise_multiplier=noise[step], generator=generator)
        for part in rows if step != 1 else []:
            assert engine.noise_multiplier == noise[step]
            assert engine.max_grad_norm == bound
            assert engine.sensitivity == pytest.approx(bounds[step])
            optimizer.virtual_step(loss=losses_of(model, x[part], y[part]))
        optimizer.step(loss=None)
        limit = math.sqrt(sum(p.numel() for p in parameters.values())) * noise[step] * bounds[step]
        assert engine.get_training_stats()["noise_limit"] == pytest.approx(limit)
        for name, parameter in parameters.items():
            torch.testing.assert_close(model.get_parameter(name).grad, (noisy[name] / 10).to(parameter.dtype))
        twin.load_state_dict(model.state_dict())


@ASSUMED
@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_every_step_is_priced_at_the_multiplier_that_it_had(accountant):
    _, optimizer, engine = attached(noise_multiplier=[2.0, 1.0, 2.0, 0.5], accountant=accountant)
    taken = {0: [], 1: [(2.0, 1)], 2: [(2.0, 1), (1.0, 1)], 3: [(2.0, 2), (1.0, 1)]}
    taken[4] = [*taken[3], (0.5, 1)]
    for steps, mechanisms in taken.items():
        entries = [Entry(0.01, noise, number) for noise, number in mechanisms]
        spent = engine.get_privacy_spent()
        assert (spent.steps, spent.epsilon) == (steps, compute_epsilon(entries, 1e-5, accountant))
        assert engine.get_privacy_spent(steps=steps).epsilon == spent.epsilon
        if steps < 4:
            optimizer.step(loss=None)
    with pytest.raises(ConfigError, match="4, the steps in the table"):
        engine.get_privacy_spent(steps=5)


@pytest.mark.parametrize("noise", [1.0, [1.0, 2.0]])
def test_a_number_of_steps_below_none_has_no_price(noise):
    """A slice of a table would read it from its end."""
    with pytest.raises(ConfigError, match="steps=-1"):
        small_engine(small_model(), noise_multiplier=noise).get_privacy_spent(steps=-1)


@pytest.mark.parametrize("name", ["noise_multiplier", "max_grad_norm"])
def test_there_is_no_step_beyond_the_end_of_a_table(name):
    model, optimizer, engine = attached(**{name: [0.5, 0.7]}, lr=0.0)
    losses = losses_of(model, *small_batch())
    for _ in range(2):
        optimizer.step(loss=None)
    for step, loss in ((optimizer.virtual_step, losses), (optimizer.step, losses), (optimizer.step, None)):
        with pytest.raises(ConfigError, match="has 2 steps, and all were taken"):
            step(loss=loss)
    assert (engine.steps, getattr(engine, name)) == (2, 0.7)


@pytest.mark.parametrize(
    "table", [(1.0, 2.0), [1, 2], range(1, 3), np.array([1.0, 2.0], np.float32), torch.tensor([1.0, 2.0])]
)
def test_lists_arrays_and_tensors_are_tables_of_plain_numbers(table):
    engine = small_engine(small_model(), noise_multiplier=table, max_grad_norm=table)
    settings = engine.state_dict()["settings"]
    for name in ("noise_multiplier", "max_grad_norm"):
        assert settings[name] == (1.0, 2.0)
        assert {type(one) for one in settings[name]} == {float}


@pytest.mark.parametrize("number", [2, np.float32(2), torch.tensor(2.0)])
def test_numbers_of_any_kind_are_numbers(number):
    engine = small_engine(small_model(), noise_multiplier=number, max_grad_norm=number)
    assert (engine.noise_multiplier, engine.max_grad_norm) == (2.0, 2.0)
    assert {type(engine.noise_multiplier), type(engine.max_grad_norm)} == {float}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"noise_multiplier": []}, "expected a number, or a table"),
        ({"noise_multiplier": "1.0"}, "expected a number, or a table"),
        ({"noise_multiplier": [[1.0, 2.0]]}, "expected a number, or a table"),
        ({"noise_multiplier": iter([1.0])}, "expected a number, or a table"),
        ({"max_grad_norm": [{"": 1.0}]}, "expected a number, or a table"),
        ({"noise_multiplier": [1.0, -0.5]}, "noise_multiplier=-0.5 >= 0"),
        ({"noise_multiplier": [1.0, math.nan]}, "noise_multiplier=nan"),
        ({"max_grad_norm": [0.1, 0.0]}, "max_grad_norm=0.0"),
        ({"max_grad_norm": [0.1, math.inf], "clipping_style": "layer-wise"}, "max_grad_norm=inf"),
        (
            {"noise_multiplier": [1.0, 1.0], "max_grad_norm": [0.1]},
            "2 of noise_multiplier and 1 of max_grad_norm: expected one entry of each for every step",
        ),
        ({"noise_multiplier": [1.0], "target_epsilon": 3.0}, "not both"),
    ],
)
def test_tables_that_cannot_be_used_are_refused(options, words):
    with pytest.raises(ConfigError, match=words):
        small_engine(small_model(), **{"noise_multiplier": 1.0, **options})


def test_one_step_without_noise_in_a_table_warns_and_costs_everything_from_then_on():
    with pytest.warns(UserWarning, match="nothing is protected") as told:
        engine = small_engine(small_model(), noise_multiplier=[1.0, 0.0])
    assert told[0].filename.endswith("attached.py")
    with pytest.warns(UserWarning, match="Poisson"):
        assert engine.get_privacy_spent(steps=1).epsilon < math.inf
    assert engine.get_privacy_spent(steps=2).epsilon == math.inf


def test_training_goes_on_in_the_table_where_it_was_saved(tmp_path):
    def start():
        return attached(noise_multiplier=[1.0, 2.0, 3.0], max_grad_norm=[0.1, 0.2, 0.3], lr=0.0)

    _, optimizer, engine = start()
    optimizer.step(loss=None)
    torch.save(engine.state_dict(), tmp_path / "engine.pt")
    _, optimizer, resumed = start()
    resumed.load_state_dict(torch.load(tmp_path / "engine.pt"))
    assert (resumed.steps, resumed.noise_multiplier, resumed.max_grad_norm) == (1, 2.0, 0.2)
    optimizer.step(loss=None)
    assert resumed._schedule.entries(0.01, resumed.steps) == [Entry(0.01, 1.0, 1), Entry(0.01, 2.0, 1)]
