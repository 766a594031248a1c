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
from fl_dp.federation.client.kept_states import OwnStates, kept_by, read_own_model
from fl_dp.federation.client.payment import Paid
from fl_dp.federation.wire.arrays import state_arrays
from fl_dp.records import LocalUpdate, RoundPlan
from fl_dp.training.kept import read_state
from fl_dp.training.local_algorithm import algorithm_of

ADAM = replace(PLAN, optimizer="adam", optimizer_state="keep")
OWN = replace(PLAN, local_algorithm="mr-mtl", pull=0.1)
STATE = b"state"


class Keeping(Site):
    """A site whose rounds are trained; what it keeps, and what its payments' keys were asked for."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, epsilon=30.0, **settings)

    def trained(self, plan: RoundPlan, **changes: Any) -> LocalUpdate:
        update = self.train(replace(plan, **changes))
        assert isinstance(update, LocalUpdate), update
        return update

    def files(self) -> list[Path]:
        return sorted(kept_by(self.config).glob("*"))

    def kept(self) -> Any:
        """The state after the last round."""
        file = max(self.files(), key=lambda one: int(one.stem.rpartition("-")[2]))
        return read_state(file.read_bytes())


@pytest.fixture
def site(tmp_path: Path) -> Keeping:
    return Keeping(tmp_path)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The digests, of weights and state, that payments' keys were asked for."""
    found: list[tuple[str, str]] = []
    key = Paid.key

    def noted(self: Paid, weights: str, state: str = "") -> bytes:
        found.append((weights, state))
        return key(self, weights, state)

    monkeypatch.setattr(Paid, "key", noted)
    return found


def states_of(folder: Path, plan: RoundPlan, *, ledger: str = "ledger.sqlite", wide: int = 2) -> OwnStates:
    """As a client with that plan has them."""
    config = ClientConfig(client="a", ledger=str(folder / ledger))
    parameters = {"1.weight": torch.zeros(wide, 2), "1.bias": torch.zeros(wide)}
    known = replace(plan, local_algorithm="fedavg", personal="")  # what it keeps is not asked here
    trainer: Any = SimpleNamespace(plan=plan, algorithm=algorithm_of(known, parameters))
    return OwnStates(config, trainer)


def test_a_round_goes_on_where_its_runs_last_one_before_it_ended(site: Keeping) -> None:
    """Also when the server lost a round and asks for it under another name; another run begins anew."""
    for server_round in (1, 2, 3):
        site.trained(ADAM, server_round=server_round)
        assert int(site.kept()["optimizer"][0]["step"]) == 3 * server_round
    assert [file.stem.rpartition("-")[2] for file in site.files()] == ["2", "3"]  # the server may be at 2
    site.trained(ADAM, run="run-1b", origin="run-1", server_round=3)
    assert int(site.kept()["optimizer"][0]["step"]) == 9
    site.trained(ADAM, run="run-2")
    steps = [int(read_state(file.read_bytes())["optimizer"][0]["step"]) for file in site.files()]
    assert sorted(steps) == [3, 6, 9]


@pytest.mark.parametrize(
    "changes",
    [
        {"local_algorithm": "fedprox"},
        {"optimizer_settings": "amsgrad=true"},
        {"optimizer": "adamax"},
        {"model": "other"},
        {"task": "t"},
        {"trained": "t"},
        {"unit": "person"},
        {"personal": "1.bias"},
        {"private": False},
        {"optimizer_state": "reset"},
    ],
)
def test_a_state_is_of_one_run_one_model_and_one_way_to_train(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    states_of(tmp_path, ADAM).save(1, STATE)
    assert states_of(tmp_path, replace(ADAM, run="another", origin="run-1")).before(2) == STATE
    assert states_of(tmp_path, replace(ADAM, **changes)).before(2) == b""
    assert states_of(tmp_path, ADAM, ledger="other.sqlite").before(2) == b""
    assert states_of(tmp_path, ADAM, wide=3).before(2) == b""


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
    folder = kept_by(ClientConfig(client="a", ledger=str(tmp_path / "ledger.sqlite")))
    assert len(list(folder.iterdir())) == 8


def test_models_of_earlier_runs_stay_under_the_name_of_the_run_that_began(site: Keeping) -> None:
    site.trained(OWN, run="first")
    site.trained(OWN, run="again", origin="first", server_round=2)
    site.trained(OWN, run="other")
    site.trained(ADAM, run="third")
    assert [file.name.partition("_")[0] for file in site.files()] == ["model"] * 3 + ["state"]
    assert all(file.stat().st_mode & 0o077 == 0 for file in site.files())
    models = {(own := read_own_model(file)).run: own for file in site.files()[:3]}
    assert {name: one.server_round for name, one in models.items()} == {"first": 2, "other": 1}
    weights = {name: one.detach() for name, one in MODEL.named_parameters()}
    there = models["first"].on(weights)
    assert there is not None
    assert all(torch.equal(there[name], one) for name, one in models["first"].parameters.items())
    assert models["first"].on({name: torch.zeros(3) for name in weights}) is None


def test_all_that_was_received_is_an_input_of_the_key(site: Keeping, asked: list[tuple[str, str]]) -> None:
    for number in (0.0, 1.0):
        arrays = {name: array * 0 + np.float32(number) for name, array in state_arrays(MODEL).items()}
        plan = replace(PLAN, run=f"run {number}")
        assert isinstance(site.train(plan, arrays, expected=arrays), LocalUpdate)
    assert asked[0][0] != asked[1][0]


def test_random_numbers_depend_on_the_kept_state(site: Keeping, asked: list[tuple[str, str]]) -> None:
    """Two rounds that differ in the state alone share no random number, even from one payment's bytes."""
    for server_round in (1, 2):
        site.trained(OWN, server_round=server_round)
    (weights, nothing), (same, state) = asked
    assert (weights, nothing, len(state)) == (same, "", 64)


def test_a_round_that_fails_or_asks_for_none_leaves_no_state(
    site: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.trained(ADAM, optimizer_state="reset")
    assert not site.files()
    monkeypatch.setattr("fl_dp.federation.client.own_training.update_of", lambda trainer: None)
    assert site.train(replace(OWN, server_round=2)).reason == "its update holds values that are not finite"
    assert not site.files()


def test_of_a_model_of_its_own_the_weights_leave_and_of_adam_nothing(site: Keeping) -> None:
    update = site.trained(ADAM, local_algorithm="mr-mtl")
    state = site.kept()
    assert update.arrays.keys() == state["own"].keys()
    assert all((array == state["own"][name].numpy()).all() for name, array in update.arrays.items())
    sent = {float(number) for array in update.arrays.values() for number in array.ravel()[:50]}
    adams = [one["exp_avg"].ravel()[:50] for one in state["optimizer"].values()]
    assert not sent & {float(number) for numbers in adams for number in numbers}


def test_the_next_round_starts_from_the_clients_own_parameters(site: Keeping) -> None:
    """With steps too small to be seen, a round leaves the model as it was after the last one."""
    own = site.trained(OWN).arrays
    still = site.trained(OWN, server_round=2, learning_rate=1e-12).arrays
    names = dict(MODEL.named_parameters())
    assert all((still[name] == own[name]).all() for name in own)
    assert any((own[name] != names[name].detach().numpy()).any() for name in own)
