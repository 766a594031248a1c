"""A kept optimizer's state is on the disk between rounds, and decides the next one's random numbers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from federation.client.sites import PLAN, Site

from fl_dp.federation.client.optimizer_state import FOLDER, KeptState
from fl_dp.federation.client.round import PaidRound
from fl_dp.records import LocalUpdate
from fl_dp.training.optimizers import TorchDescent, descent_of

KEPT = replace(PLAN, optimizer="adam", optimizer_state="keep")


def kept(folder: Path) -> dict:
    (file,) = (folder / FOLDER).iterdir()
    return torch.load(file, weights_only=True)


def test_a_round_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    site = Site(tmp_path)
    assert isinstance(site.train(KEPT), LocalUpdate)
    first = kept(tmp_path)
    assert (first["round"], int(first["state"][0]["step"])) == (1, 3)
    assert isinstance(site.train(replace(KEPT, server_round=2)), LocalUpdate)
    assert (kept(tmp_path)["round"], int(kept(tmp_path)["state"][0]["step"])) == (2, 6)
    assert isinstance(site.train(replace(KEPT, run="run-2")), LocalUpdate)  # another run begins anew
    assert int(kept(tmp_path)["state"][0]["step"]) == 3


def test_nothing_is_kept_unless_it_is_asked_for(tmp_path: Path) -> None:
    site = Site(tmp_path)
    assert isinstance(site.train(replace(KEPT, optimizer_state="reset")), LocalUpdate)
    assert not (tmp_path / FOLDER).exists()


@pytest.fixture
def descent() -> TorchDescent:
    made = descent_of(KEPT, [torch.ones(2)], divisor=1.0)
    assert isinstance(made, TorchDescent)
    return made


def test_the_digest_is_that_of_the_state_and_a_repeated_round_does_not_take_its_own(
    tmp_path: Path, descent: TorchDescent
) -> None:
    config = Site(tmp_path).config
    new = KeptState.load(config, KEPT, descent, "shapes")
    assert new.digest == ""
    descent.step([torch.ones(2)])
    new.save(1, descent)
    digests = []
    for _ in range(2):
        digests.append(KeptState.load(config, replace(KEPT, server_round=2), descent, "shapes").digest)
    assert digests[0] == digests[1] != ""
    assert KeptState.load(config, KEPT, descent, "shapes").digest == ""
    assert KeptState.load(config, replace(KEPT, server_round=2), descent, "other shapes").digest == ""
    descent.step([torch.ones(2)])
    new.save(1, descent)
    assert KeptState.load(config, replace(KEPT, server_round=2), descent, "shapes").digest != digests[0]


def test_the_payments_key_follows_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rounds that differ in the state alone share no random number, even from one payment's bytes."""
    seen: list[tuple[str, bytes]] = []
    key = PaidRound.key

    def noted(self: PaidRound, weights: str, optimizer: str = "") -> bytes:
        seen.append((optimizer, key(self, weights, optimizer)))
        assert key(self, weights, optimizer) != key(self, weights, optimizer + "x")
        return seen[-1][1]

    monkeypatch.setattr(PaidRound, "key", noted)
    site = Site(tmp_path)
    site.train(KEPT)
    site.train(replace(KEPT, server_round=2))
    assert seen[0][0] == ""
    assert len(seen[1][0]) == 64


def test_what_is_kept_never_leaves(tmp_path: Path) -> None:
    site = Site(tmp_path)
    update = site.train(KEPT)
    assert isinstance(update, LocalUpdate)
    moments = {tuple(one["exp_avg"].shape) for one in kept(tmp_path)["state"].values()}
    assert {np.shape(array) for array in update.arrays.values()} == moments
    for array in update.arrays.values():
        for one in kept(tmp_path)["state"].values():
            assert array.shape != tuple(one["exp_avg"].shape) or not np.array_equal(array, one["exp_avg"])
