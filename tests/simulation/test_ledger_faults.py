"""A ledger that cannot be used, while many clients keep it: nothing leaves, and nothing is said of it."""

from typing import Any

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.errors import LedgerError
from fl_dp.federation.wire.arrays import encode
from fl_dp.federation.wire.messages import plan_to_content, profile_from_content, reply_from_content
from fl_dp.federation.wire.partial_sums import GROUP, SUM
from fl_dp.records import Refusal

UNUSABLE = Refusal("failed", "its ledger cannot be used; its own log says why")
CLIENTS = 12


def fail(*_: Any, **__: Any) -> Any:
    raise LedgerError("/home/smith/ledger.sqlite: disk full")


def refusal(content: Any) -> Any:
    return reply_from_content(content, {})[0]


def asked(federation: Any, count: int) -> dict[int, Any]:
    content = plan_to_content(federation.plan(), encode(federation.start))
    return {client: (str(client), content) for client in range(count)}


def test_a_conflict_is_answered_and_its_words_stay_in_the_clients_log(federation, caplog):
    """Data that are in the ledger as another set: whoever asks hears that the ledger cannot be used."""
    federation.ledger.register("another", federation.shared_part(0).fingerprint(), 30)
    contents = federation.clients.register(range(2))
    assert [profile_from_content(content) for content in contents] == [UNUSABLE, UNUSABLE]
    assert str(federation.folder) in caplog.text
    works, refusals = federation.clients.read(asked(federation, 2))
    assert works == []
    assert [refusal(content) for content in refusals.values()] == [UNUSABLE, UNUSABLE]


def test_what_cannot_be_paid_for_is_not_trained(federation, monkeypatch):
    works, _ = federation.clients.read(asked(federation, 2))
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
