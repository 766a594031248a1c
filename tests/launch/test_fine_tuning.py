"""A site trains a model further, alone: paid for as a round, and never beyond the budget."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from federation.client.sites import MODEL, PLAN, Site

from fl_dp.errors import BudgetExhaustedError, ConfigError
from fl_dp.launch.fine_tuning import Recipe, fine_tune
from fl_dp.records import Entry, LocalUpdate

pytestmark = pytest.mark.usefixtures("flower_task")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "model.pt"
    torch.save(MODEL.state_dict(), file)
    return file


def weights(file: Path) -> dict[str, torch.Tensor]:
    return torch.load(file, weights_only=True)


def spent(site: Site) -> list[tuple[float, float, int]]:
    return [(one.sample_rate, one.noise_multiplier, one.steps) for one in site.register().spent]


def test_its_steps_are_paid_for_by_the_mechanism_of_earlier_rounds(tmp_path, model):
    site = Site(tmp_path)
    assert isinstance(site.train(), LocalUpdate)
    ((rate, noise, steps),) = spent(site)
    said = fine_tune(site.config, model, Recipe(local_epochs=0.5), tmp_path / "ours.pt").splitlines()
    ((again, same, more),) = spent(site)
    assert (again, same) == (rate, noise)
    assert more - steps == round(0.5 / rate) == 6
    assert "model.pt: 6 of 6 steps taken, epsilon " in said[0]
    assert said[1].startswith("before, on 355 test rows of this site: loss ")
    assert said[2].startswith("after, on 355 test rows")
    tuned, before = weights(tmp_path / "ours.pt"), MODEL.state_dict()
    assert tuned.keys() == before.keys()
    assert not any(torch.equal(tuned[name], before[name]) for name in tuned)


def test_data_of_random_allocation_are_tuned_in_whole_passes(tmp_path, model):
    site = Site(tmp_path, accountant="pld")
    size = site.register().public_size
    passes = replace(PLAN, steps=11, pass_steps=11, expected_batch_size=-(-size // 11), noise_multiplier=2.0)
    assert isinstance(site.train(passes), LocalUpdate)
    fine_tune(site.config, model, Recipe(local_epochs=2.0), tmp_path / "ours.pt")
    assert site.register().spent == (Entry(1 / 11, 2.0, 33, pass_steps=11),)
    with pytest.raises(ConfigError, match="a whole number with sampling-scheme = allocation"):
        fine_tune(site.config, model, Recipe(local_epochs=0.5), tmp_path / "other.pt")


def test_it_stops_where_the_budget_ends(tmp_path, model):
    site = Site(tmp_path)
    site.train()
    said = fine_tune(site.config, model, Recipe(local_epochs=50.0), tmp_path / "ours.pt")
    taken, asked = (int(word) for word in said.partition(": ")[2].split()[:3:2])
    assert 0 < taken < asked
    assert sum(steps for _, _, steps in spent(site)) == taken + PLAN.steps
    (tmp_path / "ours.pt").unlink()
    with pytest.raises(BudgetExhaustedError, match="epsilon"):
        fine_tune(site.config, model, Recipe(), tmp_path / "ours.pt")
    assert not (tmp_path / "ours.pt").exists()
    assert sum(steps for _, _, steps in spent(site)) == taken + PLAN.steps


def test_data_that_have_spent_nothing_get_noise_for_their_budget(tmp_path, model):
    site = Site(tmp_path, **{"min-noise-multiplier": 0.3})
    said = fine_tune(site.config, model, Recipe(local_epochs=2.0, learning_rate=0.5), tmp_path / "ours.pt")
    assert "epsilon 3.00 of 3 spent" in said or "epsilon 2.99 of 3 spent" in said
    losses = [float(line.partition("loss ")[2].split(",")[0]) for line in said.splitlines()[1:]]
    assert losses[1] < losses[0]


def test_only_what_is_chosen_moves_nobody_is_asked_and_nothing_personal_is_left_out(tmp_path, model):
    """Its operator has asked for it, and all that it trains stays here."""
    name, other = MODEL.state_dict()
    settings = {"approval-wait": 0.0, "approve": True}
    site = Site(tmp_path, personal=other, **settings)
    fine_tune(site.config, model, Recipe(trainable=other), tmp_path / "ours.pt")
    tuned = weights(tmp_path / "ours.pt")
    assert torch.equal(tuned[name], MODEL.state_dict()[name])
    assert not torch.equal(tuned[other], MODEL.state_dict()[other])
    assert not (tmp_path / "received").exists()


def test_it_starts_from_what_is_the_sites_own_and_leaves_that_as_it_was(tmp_path, model):
    site = Site(tmp_path, epsilon=30.0)
    own = site.train(replace(PLAN, local_algorithm="mr-mtl"))
    assert isinstance(own, LocalUpdate)
    still = Recipe(learning_rate=1e-12)
    for number in range(2):
        out = tmp_path / f"ours-{number}.pt"
        said = fine_tune(site.config, model, replace(still, own="run-1"), out)
        assert "after round 1 of run run-1: " in said
        assert all(torch.equal(weights(out)[name], torch.tensor(array)) for name, array in own.arrays.items())
    fine_tune(site.config, model, still, tmp_path / "plain.pt")  # what another run has left does not count
    plain = weights(tmp_path / "plain.pt")
    assert all(torch.equal(one, MODEL.state_dict()[name]) for name, one in plain.items())
    with pytest.raises(ConfigError, match="no own parameters from that run; it has some from: run-1"):
        fine_tune(site.config, model, replace(still, own="run-2"), tmp_path / "other.pt")
    torch.save(torch.nn.Linear(3, 2).state_dict(), tmp_path / "small.pt")
    with pytest.raises(ConfigError, match="from that run belong to another model"):
        fine_tune(site.config, tmp_path / "small.pt", replace(still, own="run-1"), tmp_path / "other.pt")


def test_a_noise_multiplier_may_be_named_where_it_may_vary(tmp_path, model):
    site = Site(tmp_path, **{"vary-mechanism": True})
    site.train()
    recipe = Recipe(noise_multiplier=4.0, expected_batch_size=32)
    fine_tune(site.config, model, recipe, tmp_path / "ours.pt")
    size = site.register().public_size
    assert (32 / size, 4.0) in [(rate, noise) for rate, noise, _ in spent(site)]


def test_what_cannot_be_is_refused_before_anything_is_paid(tmp_path, model):
    site, ours = Site(tmp_path), tmp_path / "ours.pt"
    site.train()
    before = spent(site)
    torch.save(torch.nn.Linear(3, 2).state_dict(), tmp_path / "other.pt")
    for file, recipe, out, words in (
        (tmp_path / "other.pt", Recipe(), ours, "not the weights of model linear"),
        (tmp_path / "none.pt", Recipe(), ours, "no such file"),
        (model, Recipe(expected_batch_size=32), ours, "cannot fine-tune: .*vary-mechanism"),
        (model, Recipe(learning_rate=-1.0), ours, "learning-rate = -1.0"),
        (model, Recipe(trainable="no.*"), ours, "matches no parameter"),
        (model, Recipe(), tmp_path / "none" / "ours.pt", "cannot be written"),
        (model, Recipe(), tmp_path / ("x" * 253), "cannot be written"),
        (model, Recipe(), Path(site.config.ledger), "already exists"),
    ):
        with pytest.raises(ConfigError, match=words):
            fine_tune(site.config, file, recipe, out)
    assert spent(site) == before
    assert not ours.exists()


def test_what_was_trained_without_privacy_is_not_started_from(tmp_path, model):
    """The epsilon that is printed would be of its steps alone, and no epsilon holds for the whole."""
    site = Site(tmp_path, **{"allow-unprotected": True})
    plan = replace(PLAN, local_algorithm="mr-mtl", private=False, noise_multiplier=0.0)
    assert isinstance(site.train(plan), LocalUpdate)
    with pytest.raises(ConfigError, match="--own run-1: was trained without privacy"):
        fine_tune(site.config, model, Recipe(own="run-1"), tmp_path / "ours.pt")
