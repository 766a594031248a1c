"""What a client keeps is on the disk between rounds, and decides the next one's random numbers."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from federation.client.sites import MODEL, PLAN, Site

from fl_dp.config.client import ClientConfig
from fl_dp.federation.client.own_states import OwnStates, own_models, states_folder
from fl_dp.federation.client.received import read_received, received_file
from fl_dp.federation.client.stages import PaidRound
from fl_dp.federation.wire.arrays import encode, specs, state_arrays
from fl_dp.federation.wire.messages import plan_to_content, reply_from_content
from fl_dp.records import CONTROL, LocalUpdate, Refusal, RoundPlan
from fl_dp.training.kept import read_state
from fl_dp.training.local_algorithm import algorithm_of

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
    steps = [int(read_state(file.read_bytes())["optimizer"][0]["step"]) for file in files(site)]
    assert sorted(steps) == [3, 3, 6]


@pytest.mark.parametrize(
    "changes",
    [
        {"local_algorithm": "scaffold"}, {"optimizer_settings": "amsgrad=true"}, {"optimizer": "adamax"},
        {"model": "other"}, {"task": "t"}, {"trained": "t"}, {"unit": "person"}, {"personal": "1.bias"},
        {"private": False}, {"optimizer_state": "reset"}, {"adaptive_clipping": "quantile:0.5"},
    ],
)  # fmt: skip
def test_a_state_is_of_one_run_one_model_and_one_way_to_train(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    assert states_of(tmp_path, ADAM).before(2) == b""
    states_of(tmp_path, ADAM).save(1, b"state")
    assert states_of(tmp_path, ADAM).before(2) == b"state"
    assert states_of(tmp_path, replace(ADAM, run="another", origin="run-1")).before(2) == b"state"
    assert states_of(tmp_path, replace(ADAM, **changes)).before(2) == b""


def test_a_state_is_of_one_ledger_and_of_parameters_of_one_shape(tmp_path: Path) -> None:
    states_of(tmp_path, ADAM).save(1, b"state")
    assert states_of(tmp_path, ADAM, ledger="other.sqlite").before(2) == b""
    assert states_of(tmp_path, ADAM, wide=3).before(2) == b""


def states_of(folder: Path, plan: RoundPlan, *, ledger: str = "ledger.sqlite", wide: int = 2) -> OwnStates:
    """As a client with that plan has them."""
    config = ClientConfig(client="a", ledger=str(folder / ledger))
    parameters = {"1.weight": torch.zeros(wide, 2), "1.bias": torch.zeros(wide)}
    known = replace(plan, local_algorithm="fedavg", personal="")  # what it keeps is not asked here
    trainer: Any = SimpleNamespace(plan=plan, algorithm=algorithm_of(known, parameters))
    return OwnStates(config, trainer)


def test_old_states_go_and_two_runs_may_alternate(tmp_path: Path) -> None:
    for server_round in (1, 2, 3):
        for run in ("a", "b"):
            states = states_of(tmp_path, replace(ADAM, run=run))
            last = f"{run}{server_round - 1}".encode() if server_round > 1 else b""
            assert states.before(server_round) == last
            states.save(server_round, f"{run}{server_round}".encode())
    for run in "cdefghij":
        states_of(tmp_path, replace(ADAM, run=run)).save(1, b"x")
    assert states_of(tmp_path, replace(ADAM, run="a")).before(4) == b""
    folder = states_folder(ClientConfig(client="a", ledger=str(tmp_path / "ledger.sqlite")))
    assert len(list(folder.iterdir())) == 8


def test_the_name_of_a_model_of_its_own_is_that_of_the_run_that_began(tmp_path: Path) -> None:
    site = Site(tmp_path, epsilon=30.0)
    trained(site, replace(OWN, run="first"))
    trained(site, replace(OWN, run="again", origin="first", server_round=2))
    trained(site, replace(OWN, run="other"))
    models = own_models(site.config)
    assert {name: one.server_round for name, one in models.items()} == {"first": 2, "other": 1}
    weights = {name: one.detach() for name, one in MODEL.named_parameters()}
    there = models["first"].on(weights)
    assert there is not None
    assert all(torch.equal(there[name], one) for name, one in models["first"].parameters.items())
    assert models["first"].on({name: torch.zeros(3) for name in weights}) is None


def test_all_that_was_received_is_an_input_of_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control variates too; and they are no part of the model that is kept to be measured."""
    seen: list[str] = []
    key = PaidRound.key

    def noted(self: PaidRound, weights: str, state: str = "") -> bytes:
        seen.append(weights)
        return key(self, weights, state)

    monkeypatch.setattr(PaidRound, "key", noted)
    site = Site(tmp_path, epsilon=30.0, **{"evaluate-received": True})
    plan, arrays = replace(PLAN, local_algorithm="scaffold"), state_arrays(MODEL)
    for number in (0.0, 1.0):
        controls = {CONTROL + name: array * 0 + np.float32(number) for name, array in arrays.items()}
        content = plan_to_content(replace(plan, run=f"run {number}"), encode(arrays | controls))
        answer, problem = reply_from_content(site.call("train", content), specs(arrays | controls))
        assert problem == ""
        assert isinstance(answer, LocalUpdate)
    assert seen[0] != seen[1]
    assert read_received(received_file(site.config)).weights.keys() == arrays.keys()


def test_a_round_that_fails_leaves_no_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fl_dp.federation.client.own_training.update_of", lambda trainer: None)
    site = Site(tmp_path)
    refusal = site.train(OWN)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "its update holds values that are not finite"
    assert not files(site)


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


def test_a_bound_that_follows_goes_on_and_begins_anew_with_another_first_one(tmp_path: Path) -> None:
    following = replace(PLAN, adaptive_clipping="quantile:0.5")
    site = Site(tmp_path)
    trained(site, following)
    first = kept(site)["bound"]
    trained(site, replace(following, server_round=2))
    assert first != 1.0
    assert kept(site)["bound"] != first
    states_of(tmp_path, following).save(1, b"state")
    assert states_of(tmp_path, replace(following, max_grad_norm=2.0)).before(2) == b""
    assert states_of(tmp_path, PLAN).before(2) == b""
