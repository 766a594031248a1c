"""The simulated clients' ledger: what is paid when, and never twice; if it cannot be used, nothing leaves."""

import dataclasses
from typing import Any

from flwr.app import RecordDict

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.errors import LedgerError
from fl_dp.federation.wire.arrays import encode
from fl_dp.federation.wire.messages import plan_to_content, profile_from_content, reply_from_content
from fl_dp.federation.wire.partial_sums import GROUP, SUM
from fl_dp.records import NUMERICS, Refusal, RoundPlan
from fl_dp.simulation.actor.shared_data import SharedParts
from fl_dp.simulation.clients import SimulatedClients, result_of
from fl_dp.simulation.work import Done

CLIENTS = 12
UNUSABLE = Refusal("failed", "its ledger cannot be used; its own log says why")


def asked(federation: Any, clients: range, **plan: Any) -> dict[int, tuple[str, RecordDict]]:
    content = plan_to_content(dataclasses.replace(federation.plan(), **plan), encode(federation.start))
    return {client: (f"{plan.get('server_round', 1)}-{client}", content) for client in clients}


def paid(federation: Any, clients: range, weights: str = "w", **plan: Any) -> Any:
    items, refusals = federation.clients.read(asked(federation, clients, **plan))
    assert not refusals
    return federation.clients.pay(items, weights)


def refusal(content: Any) -> Refusal:
    found, _ = reply_from_content(content, {})
    assert isinstance(found, Refusal)
    return found


def fail(*_: Any, **__: Any) -> Any:
    raise LedgerError("/home/smith/ledger.sqlite: disk full")


def test_registration_enters_all_clients_and_gives_their_public_numbers(federation):
    profiles = [profile_from_content(one) for one in federation.clients.register(range(CLIENTS))]
    assert [profile.public_size for profile in profiles] == [30 + 2 * k for k in range(CLIENTS)]
    assert all(profile.spent == () for profile in profiles)
    assert len(federation.ledger.accounts()) == CLIENTS
    federation.clients.register(range(CLIENTS))
    assert len(federation.ledger.accounts()) == CLIENTS


def test_more_records_than_are_declared_are_answered_as_data_that_cannot_be_used(federation, caplog):
    settings = dataclasses.replace(federation.config(), public_size=30)
    clients = SimulatedClients(settings, SharedParts(federation.shared), federation.ledger)
    told = Refusal("failed", "its data cannot be used; its own log says why")
    assert [profile_from_content(one) for one in clients.register(range(2))] == [told, told]
    works, refusals = clients.read(asked(federation, range(2)))
    assert (works, list(map(refusal, refusals.values()))) == ([], [told, told])
    assert "public-size = 30: the data have 32 records" in caplog.text
    assert federation.ledger.accounts() == []


def test_tasks_are_what_the_plan_asks_for(federation):
    items, _ = federation.clients.read(asked(federation, range(2)))
    found = [(one.client, one.part, one.steps, one.sample_rate) for one in items]
    assert found == [("0", 0, 2, 8 / 30), ("1", 1, 2, 8 / 32)]


def test_a_policy_speaks_before_anything_is_paid(federation):
    items, refusals = federation.clients.read(asked(federation, range(2), max_grad_norm=1e13))
    assert not items
    assert all("clipping bound" in refusal(content).reason for content in refusals.values())
    assert set(federation.steps().values()) == {0}


def test_steps_are_on_disk_before_training_and_stay_when_nothing_comes_of_it(federation):
    items, _ = paid(federation, range(3))
    with Ledger.open_existing(federation.folder / "ledger.sqlite") as seen:
        assert sum(len(account.rounds) for account in seen.accounts()) == 3
    done = {item.message: Done(item.message, 0.1) for item in items}
    done[items[1].message] = Done(items[1].message, 0.1, problem="it broke")
    contents = federation.clients.answer(items, done)
    assert refusal(contents[items[1].message]) == Refusal("failed", "it broke")
    update, _ = reply_from_content(contents[items[0].message], {})
    assert sum(entry.steps for entry in update.spent) == update.steps == 2
    assert federation.steps() == {0: 2, 1: 2, 2: 2}


def test_a_round_of_the_same_run_is_paid_for_once(federation):
    """Its result is the same; of another run it is another result."""
    paid(federation, range(3))
    again, refusals = paid(federation, range(3))
    assert len(again) == 3
    assert not refusals
    assert set(federation.steps().values()) == {2}
    for changed in ({"weights": "other"}, {"learning_rate": 0.7}, {"steps": 1}):
        none, refusals = paid(federation, range(3), **changed)
        assert not none
        assert "already taken" in refusal(refusals["1-0"]).reason
    paid(federation, range(3), run="another")
    assert set(federation.steps().values()) == {4}


def test_a_round_begins_again_with_the_same_key_until_its_result_is_kept(federation):
    keys = [[item.key for item in paid(federation, range(3))[0]] for _ in range(2)]
    assert keys[0] == keys[1]
    assert len(set(keys[0])) == 3
    assert all(len(key) == 32 for key in keys[0])
    federation.clients.erase_keys("run", 1)
    none, refusals = paid(federation, range(3))
    assert not none
    assert all(
        refusal(content).status == "failed" and "already taken" in refusal(content).reason
        for content in refusals.values()
    )


def test_what_one_message_asks_of_many_is_read_for_each_size(federation):
    """Clients have 30, 32, 34, ... records; batches of 33 are more than two of them have."""
    items, refusals = federation.clients.read(asked(federation, range(4), expected_batch_size=33))
    assert [item.client for item in items] == ["2", "3"]
    words = [refusal(refusals[f"1-{client}"]).reason for client in range(2)]
    assert ["declares 30" in words[0], "declares 32" in words[1]] == [True, True]


def test_answers_and_refusals_that_are_alike_are_not_one(federation):
    items, _ = paid(federation, range(3))
    done = {item.message: Done(item.message, 0.1) for item in items}
    answers = federation.clients.answer(items, done)
    settings = dataclasses.replace(federation.config(), public_size=34)
    clients = SimulatedClients(settings, SharedParts(federation.shared), federation.ledger)
    _, refusals = clients.read(asked(federation, range(2), learning_rate=-1.0))
    for alike in (answers, refusals):
        first, second, *_ = alike.values()
        first["more"] = encode({})
        assert "more" not in second


def test_a_failed_client_that_was_retired_meanwhile_costs_the_others_nothing(federation):
    items, _ = paid(federation, range(2))
    done = {item.message: Done(item.message, 0.1) for item in items}
    done[items[1].message] = Done(items[1].message, 0.1, problem="it broke")
    federation.ledger.retire(federation.ledger.accounts()[1].dataset)
    contents = federation.clients.answer(items, done)
    assert refusal(contents[items[1].message]).reason == "it broke"
    update, _ = reply_from_content(contents[items[0].message], {})
    assert update.steps == 2


def test_a_conflict_is_answered_and_its_words_stay_in_the_clients_log(federation, caplog):
    """Data that are in the ledger as another set: whoever asks hears that the ledger cannot be used."""
    federation.ledger.register("another", federation.shared_part(0).fingerprint(), 30)
    contents = federation.clients.register(range(2))
    assert [profile_from_content(content) for content in contents] == [UNUSABLE, UNUSABLE]
    assert str(federation.folder) in caplog.text
    works, refusals = federation.clients.read(asked(federation, range(2)))
    assert works == []
    assert [refusal(content) for content in refusals.values()] == [UNUSABLE, UNUSABLE]


def test_what_cannot_be_paid_for_is_not_trained(federation, monkeypatch):
    works, _ = federation.clients.read(asked(federation, range(2)))
    monkeypatch.setattr(Ledger, "reserve_all", fail)
    paid, refusals = federation.clients.pay(works, "w")
    assert paid == []
    assert [refusal(content) for content in refusals.values()] == [UNUSABLE, UNUSABLE]


def test_what_cannot_be_committed_does_not_leave(fake_ray, federation, monkeypatch):
    """Neither an update nor a sum, and the steps stay spent."""
    grid = federation.grid_of(fake_ray, 2)
    monkeypatch.setattr(Ledger, "commit_all", fail)
    for summed in (True, False):
        replies = list(grid.send_and_receive(federation.messages(1 + summed, summed=summed)))
        assert len(replies) == CLIENTS
        for reply in replies:
            assert refusal(reply.content) == UNUSABLE
            assert GROUP not in reply.content
            assert SUM not in reply.content
    assert federation.steps() == dict.fromkeys(range(CLIENTS), 4)


def test_weights_of_another_model_leave_nothing_behind(fake_ray, federation):
    """The same messages again are answered again: nothing of the refused ones waits to be paid for."""
    grid = federation.grid_of(fake_ray, 1)
    wrong = federation.messages(arrays={"w": next(iter(federation.start.values()))})
    for _ in range(2):
        for reply in grid.send_and_receive(wrong):
            assert refusal(reply.content).status == "declined"
            assert "weights received for model linear" in refusal(reply.content).reason
    assert set(federation.steps().values()) == {0}
    assert not federation.clients._accepted


def test_all_that_decides_a_result_is_in_its_name(monkeypatch):
    """The same noise on another result would reveal their difference."""
    plan = RoundPlan("run", 1, "linear", 2, 8, 0.5, 0.0, 1.0, 1.0)
    names = {result_of("weights", plan), result_of("other weights", plan)}
    changes: list[dict[str, Any]] = [
        {"steps": 3},
        {"learning_rate": 0.6},
        {"loss": "another"},
        {"numerics": NUMERICS + 1},
        {"max_grad_norm": 2.0},
        {"noise_multiplier": 2.0},
    ]
    names |= {result_of("weights", dataclasses.replace(plan, **change)) for change in changes}
    names.add(result_of("weights", plan, "state"))
    monkeypatch.setattr("torch.__version__", "another")
    names.add(result_of("weights", plan))
    assert len(names) == 4 + len(changes)
    assert result_of("weights", plan) == result_of("weights", dataclasses.replace(plan))
