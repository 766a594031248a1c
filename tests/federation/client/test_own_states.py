"""What a client keeps is on the disk between rounds, and decides the next one's random numbers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from federation.client.sites import MODEL, PLAN, Site

from fl_dp.federation.client.own_states import states_folder
from fl_dp.federation.client.round import PaidRound
from fl_dp.records import LocalUpdate, RoundPlan
from fl_dp.training.kept import read_state

ADAM = replace(PLAN, optimizer="adam", optimizer_state="keep")
OWN = replace(PLAN, local_algorithm="mr-mtl", pull=0.1)


def files(site: Site) -> list[Path]:
    return sorted(states_folder(site.config).glob("*"))


def kept(site: Site) -> Any:
    """The state after the last round."""
    file = max(files(site), key=lambda one: int(one.stem.rpartition("-")[2]))
    return read_state(file.read_bytes())


def trained(site: Site, plan: RoundPlan) -> LocalUpdate:
    update = site.train(plan)
    assert isinstance(update, LocalUpdate), update
    return update


def test_a_round_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    site = Site(tmp_path)
    for server_round in (1, 2, 3):
        trained(site, replace(ADAM, server_round=server_round))
        assert int(kept(site)["optimizer"][0]["step"]) == 3 * server_round
    assert [file.stem.rpartition("-")[2] for file in files(site)] == ["2", "3"]  # the server may be at 2


def test_another_run_begins_anew_and_a_resumed_one_goes_on(tmp_path: Path) -> None:
    site = Site(tmp_path)
    trained(site, ADAM)
    trained(site, replace(ADAM, run="run-2", origin="run-1", server_round=2))
    assert int(kept(site)["optimizer"][0]["step"]) == 6
    trained(site, replace(ADAM, run="run-3"))
    assert [int(read_state(file.read_bytes())["optimizer"][0]["step"]) for file in files(site)] == [3]


def test_a_round_that_was_lost_is_gone_back_behind(tmp_path: Path) -> None:
    """The server was ended in round 2, and asks for it under another name: from what round 1 has left."""
    site = Site(tmp_path)
    for server_round in (1, 2):
        trained(site, replace(ADAM, server_round=server_round))
    trained(site, replace(ADAM, run="run-1b", origin="run-1", server_round=2))
    assert int(kept(site)["optimizer"][0]["step"]) == 6


def test_models_of_earlier_runs_stay(tmp_path: Path) -> None:
    site = Site(tmp_path, epsilon=30.0)
    for run in ("run-1", "run-2"):
        trained(site, replace(OWN, run=run))
    trained(site, replace(ADAM, run="run-3"))
    assert [file.name.partition("_")[0] for file in files(site)] == ["model", "model", "state"]
    assert all(file.stat().st_mode & 0o077 == 0 for file in files(site))


def test_nothing_is_kept_unless_it_is_asked_for(tmp_path: Path) -> None:
    site = Site(tmp_path)
    trained(site, replace(ADAM, optimizer_state="reset"))
    assert not files(site)


def test_the_payments_key_follows_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rounds that differ in the state alone share no random number, even from one payment's bytes."""
    seen: list[tuple[str, str]] = []
    key = PaidRound.key

    def noted(self: PaidRound, weights: str, state: str = "") -> bytes:
        assert key(self, weights, state) != key(self, weights, state + "x")
        seen.append((weights, state))
        return key(self, weights, state)

    monkeypatch.setattr(PaidRound, "key", noted)
    site = Site(tmp_path)
    for server_round in (1, 2):
        trained(site, replace(OWN, server_round=server_round))
    assert seen[0][0] == seen[1][0]
    assert seen[0][1] == ""
    assert len(seen[1][1]) == 64


def test_of_a_model_of_its_own_the_weights_leave_and_of_adam_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path)
    update = trained(site, replace(ADAM, local_algorithm="mr-mtl"))
    state = kept(site)
    assert update.arrays.keys() == state["own"].keys()
    assert all((array == state["own"][name].numpy()).all() for name, array in update.arrays.items())
    sent = {float(number) for array in update.arrays.values() for number in array.ravel()[:50]}
    assert not sent & {
        float(number) for one in state["optimizer"].values() for number in one["exp_avg"].ravel()[:50]
    }


def test_a_model_of_its_own_is_what_the_next_round_starts_from(tmp_path: Path) -> None:
    """With steps too small to be seen, a round leaves the model as it was after the last one."""
    site = Site(tmp_path)
    own = trained(site, OWN).arrays
    still = trained(site, replace(OWN, server_round=2, learning_rate=1e-12)).arrays
    names = dict(MODEL.named_parameters())
    assert all((still[name] == own[name]).all() for name in own)
    assert any((own[name] != names[name].detach().numpy()).any() for name in own)
