"""A ledger that cannot be used, while many clients keep it: nothing leaves, and nothing is said of it."""

from typing import Any

import pytest

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.errors import LedgerError
from fl_dp.federation.wire.arrays import encode
from fl_dp.federation.wire.messages import plan_to_content, profile_from_content, reply_from_content
from fl_dp.federation.wire.partial_sums import GROUP, SUM
from fl_dp.records import Refusal
from fl_dp.simulation.actor_pool import ActorPool

UNUSABLE = Refusal("failed", "its ledger cannot be used; its own log says why")
CLIENTS = 12


def fail(*_: Any, **__: Any) -> Any:
    raise LedgerError("/home/smith/ledger.sqlite: disk full")


def refusal(content: Any) -> Any:
    return reply_from_content(content, {})[0]


def asked(federation: Any, count: int) -> dict[int, Any]:
    content = plan_to_content(federation.plan(), encode(federation.start))
    return {client: (str(client), content) for client in range(count)}


def test_a_conflict_is_answered_and_its_words_stay_in_the_clients_log(federation: Any, caplog: Any) -> None:
    """Data that are in the ledger as another set: whoever asks hears that the ledger cannot be used."""
    federation.ledger.register("another", federation.shared_part(0).fingerprint(), 30)
    contents = federation.clients.register(range(2))
    assert [profile_from_content(content) for content in contents] == [UNUSABLE, UNUSABLE]
    assert str(federation.folder) in caplog.text
    works, refusals = federation.clients.read(asked(federation, 2))
    assert works == []
    assert [refusal(content) for content in refusals.values()] == [UNUSABLE, UNUSABLE]


def test_what_cannot_be_paid_for_is_not_trained(federation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    works, _ = federation.clients.read(asked(federation, 2))
    monkeypatch.setattr(Ledger, "reserve_all", fail)
    paid, refusals = federation.clients.pay(works, "w")
    assert paid == []
    assert [refusal(content) for content in refusals.values()] == [UNUSABLE, UNUSABLE]


def test_what_cannot_be_committed_does_not_leave(
    fake_ray: Any, federation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither an update nor a sum, and the steps stay spent."""
    pool = ActorPool(lambda: fake_ray.start_actor(federation.actor), 2, 600.0, at_once=64)
    grid = federation.grid(pool)
    monkeypatch.setattr(Ledger, "commit_all", fail)
    for summed in (True, False):
        replies = list(grid.send_and_receive(federation.messages(1 + summed, summed=summed)))
        assert len(replies) == CLIENTS
        for reply in replies:
            assert refusal(reply.content) == UNUSABLE
            assert GROUP not in reply.content
            assert SUM not in reply.content
    assert federation.steps() == dict.fromkeys(range(CLIENTS), 4)


def test_weights_of_another_model_leave_nothing_behind(fake_ray: Any, federation: Any) -> None:
    """The same messages again are answered again: nothing of the refused ones waits to be paid for."""
    pool = ActorPool(lambda: fake_ray.start_actor(federation.actor), 1, 600.0, at_once=64)
    grid = federation.grid(pool)
    wrong = federation.messages(arrays={"w": next(iter(federation.start.values()))})
    for _ in range(2):
        for reply in grid.send_and_receive(wrong):
            assert refusal(reply.content).status == "declined"
    assert set(federation.steps().values()) == {0}
    assert not federation.clients._accepted
