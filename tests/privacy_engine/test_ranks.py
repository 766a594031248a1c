"""Several processes that train one model: the same bits as one, one noise, all or none."""

import functools
import math

import numpy as np
import pytest
import rank_work
import torch
from definition import clipped_one_by_one
from ranked import BOUND, EXPECTED, LR, PHYSICAL, RECORDS, data, losses_of, on_ranks, small_model

from fl_dp import PrivacyEngine
from fl_dp.engine.noise.discrete_gaussian import width
from fl_dp.engine.noise.grid import noise_grid
from fl_dp.engine.sum_error import most_drawn, sum_error
from fl_dp.errors import AssumedSamplingWarning, ConfigError


@functools.cache
def trained(size):
    return on_ranks(size, rank_work.train, {})


def same(weights, others):
    return all(np.array_equal(one, other) for one, other in zip(weights, others, strict=True))


def test_two_ranks_train_the_same_bits_as_one_and_each_pass_is_on_one_of_them():
    (alone,), both = trained(1), trained(2)
    assert same(both[0]["weights"], alone["weights"])
    assert same(both[1]["weights"], alone["weights"])
    for step, passes in enumerate(alone["passes"]):
        numbers = sorted(number for one in passes for number in one)
        assert len(set(numbers)) == len(numbers)
        assert {len(one) for one in passes[:-1]} == {PHYSICAL}
        assert [rank["passes"][step] for rank in both] == [passes[::2], passes[1::2]]


def test_the_price_is_that_of_one_process_and_sampling_is_seen():
    one_process = PrivacyEngine(
        small_model(),
        batch_size=EXPECTED,
        sample_size=RECORDS,
        noise_multiplier=1.0,
        max_grad_norm=BOUND,
        accountant="rdp",
    )
    with pytest.warns(AssumedSamplingWarning):
        expected = one_process.get_privacy_spent(steps=3).epsilon
    for rank in trained(2):
        assert (rank["spent"].epsilon, rank["spent"].steps, rank["spent"].sampling) == (expected, 3, "seen")
        assert set(rank["stats"].values()) == {None}


@pytest.mark.slow
@pytest.mark.parametrize(("physical", "expected"), [(4, 20), (64, 20), (4, 1)])
def test_one_two_and_four_ranks_train_the_same_bits(physical, expected):
    """With one pass, the other ranks take the step without any; so do all, on an empty draw."""
    options = {"physical": physical, "expected": expected}
    found = [on_ranks(size, rank_work.train, options, 3 if expected > 1 else 8) for size in (1, 2, 4)]
    assert (expected == 1) == ([] in found[0][0]["passes"])
    for rank in found[1] + found[2]:
        assert same(rank["weights"], found[0][0]["weights"])


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("options", [{}, {"ghost_clipping": False}, {"mixed": False}])
def test_the_sum_is_that_of_the_definition(size, options):
    """One backward pass per example, in float64, and nearly no noise."""
    given = {"dtype": torch.float64, "noise_multiplier": 1e-9, **options}
    found = on_ranks(size, rank_work.train, given)
    model, records = small_model(torch.float64), data(torch.float64)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    for step in range(3):
        drawn = [number for rank in found for one in rank["passes"][step] for number in one]
        losses = (losses_of(model, records[number : number + 1]) for number in drawn)
        total = clipped_one_by_one(model, losses, BOUND)
        for name, parameter in model.named_parameters():
            parameter.grad = total[name] / EXPECTED
        optimizer.step()
    for rank in found:
        for one, parameter in zip(rank["weights"], model.parameters(), strict=True):
            assert np.allclose(one, parameter.detach().numpy(), rtol=0, atol=1e-9)


def test_the_rounding_of_all_passes_is_charged():
    ((deviation, passes),) = on_ranks(1, rank_work.charged_passes)
    most, count = most_drawn(EXPECTED), sum(p.numel() for p in small_model().parameters())
    assert passes == math.ceil(most / PHYSICAL)
    assert deviation == noise_grid(BOUND, 1.0, count, sum_error(most), passes).deviation
    assert deviation > noise_grid(BOUND, 1.0, count, sum_error(most)).deviation


def test_the_other_ranks_get_and_keep_noisy_totals_alone():
    zero, one = on_ranks(2, rank_work.watch_exchanges)
    assert zero["names"] == one["names"] == ["broadcast", *["reduce", "broadcast"] * 2]
    assert one["left"] == zero["left"], "the key of the draws, and noisy totals"
    assert one["released"] == zero["released"]
    for total, other, released in zip(zero["reduced"], one["reduced"], zero["released"][1:], strict=True):
        noise = np.array(released) - np.array(total)
        assert 0.6 < np.std(noise) / width(3) < 1.4, "what is sent has noise on it, once"
        assert other != total
    assert not np.any(one["before"][1:]), "nothing is left of what was reduced"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "counted"),
    [("before the step", 1), ("in the step", 2), ("between reduce and broadcast", 2), ("waits", 1)],
)
def test_a_rank_that_ends_ends_the_step_of_the_others_without_a_release(where, counted):
    left, ended = on_ranks(2, rank_work.end_early, where)
    assert not ended
    assert (left["same"], left["steps"]) == (True, counted)
    assert len(left["errors"]) == 2
    assert left["errors"][0].startswith("LaunchError: An exchange with the other ranks failed")


@pytest.mark.slow
def test_ranks_that_differ_from_the_start_are_refused_on_all_of_them():
    words = {
        "bound": "the engine's settings",
        "multiplier": "the engine's settings",
        "kernels": "the engine's settings",
        "type": "the parameters, the weights",
        "weights": "the weights",
        "threads": "torch and the device",
        "precision": "torch and the device",
        "physical": "the sampler",
        "position": "the sampler",
        "rate": "the optimizer",
    }
    for found in on_ranks(2, rank_work.differ_from_the_start):
        assert found.pop("none") is None
        assert found.keys() == words.keys()
        for name, error in found.items():
            assert error.startswith(f"ConfigError: Rank 1 differs from rank 0 in {words[name]}:"), found


def test_ranks_with_a_shard_each_are_refused_and_records_that_cannot_be_compared_are_said():
    for (shard, steps, _), (augmented, taken, is_told), (same, both, is_open) in on_ranks(
        2, rank_work.shards
    ):
        assert shard.startswith("ConfigError: Rank 1 differs from rank 0 in the records:")
        assert (steps, augmented, taken, is_told) == (0, None, 1, True)
        assert (same, both, is_open) == (None, 1, False)


def test_a_rank_that_changes_later_is_refused_before_the_step_is_counted():
    words = {
        "change_rate": "differs from rank 0 in the optimizer",
        "change_weight": "differs from rank 0 in the weights",
        "change_mode": "differs from rank 0 in the training mode",
        "leave_out_a_pass": "refused this step",
        "cut_a_pass": "refused this step",
    }
    own = {
        "leave_out_a_pass": "fewer than the records",
        "cut_a_pass": "each physical batch of the sampler is one",
    }
    for rank, found in enumerate(on_ranks(2, rank_work.differ_later)):
        assert [name for name, *_ in found] == list(words)
        for name, error, steps, is_same in found:
            expected = own[name] if rank == 1 and name in own else f"Rank 1 {words[name]}"
            assert expected in error
            assert (steps, is_same) == (1, True)


@pytest.mark.slow
def test_a_state_is_continued_with_one_new_draw_on_all_ranks():
    zero, one = on_ranks(2, rank_work.continue_from_a_state)
    assert zero["spent"] == one["spent"]
    assert zero["spent"].steps == 3
    assert same(zero["weights"], one["weights"])
    last = [number for rank in (zero, one) for numbers in rank["passes"][2] for number in numbers]
    assert len(set(last)) == len(last)
    assert len(zero["passes"][2]) - len(one["passes"][2]) in (0, 1)


@pytest.mark.slow
def test_ranks_with_one_seed_get_random_numbers_of_their_own():
    zero, one = on_ranks(2, rank_work.masks)
    assert zero != one


@pytest.mark.slow
def test_a_draw_of_more_records_than_were_foreseen_is_counted_and_refused():
    for error, steps in on_ranks(2, rank_work.draw_too_many):
        assert "A draw of more than 5 records" in error
        assert steps == 1


@pytest.mark.slow
def test_what_ranks_cannot_be_combined_with():
    words = [
        "leave out generator=",
        "expected 'all' or a process group",
        "Several ranks must make the same draws",
        "noise_multiplier=0",
        "in the middle of a logical batch",
    ]
    (found,) = on_ranks(1, rank_work.refusals)
    assert found.pop() is None, "a group of the user's"
    for error, expected in zip(found, words, strict=True):
        assert expected in error


def test_without_torch_distributed_there_are_no_ranks():
    with pytest.raises(ConfigError, match="start the program with torchrun"):
        PrivacyEngine(
            small_model(), batch_size=2, sample_size=8, max_grad_norm=1.0, noise_multiplier=1.0, ranks="all"
        )
