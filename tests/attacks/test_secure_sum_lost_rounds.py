"""A server that lets every sum fail after it is paid for: it spends budgets, and learns nothing by it."""

import threading
from dataclasses import replace

import pytest
from federation.secure_sum.sum_rounds import PLAN, Federation, total_of

from fl_dp.federation.client import lost_rounds
from fl_dp.federation.client.lost_rounds import LostRounds
from fl_dp.federation.secure_sum import wire


@pytest.fixture
def most_lost(monkeypatch):
    return lambda number: monkeypatch.setattr(lost_rounds, "MOST_LOST", number)


def _ends_at(stage):
    return lambda number, at, asked: None if at == stage else asked


@pytest.mark.parametrize("stage", [wire.CONFIRM, wire.OPEN])
@pytest.mark.parametrize("names", ["one run", "a new run each time"])
def test_clients_stop_paying_for_sums_that_are_never_opened(tmp_path, most_lost, stage, names):
    """Whatever the runs are called: their names are the server's."""
    most_lost(3)
    federation = Federation(tmp_path, epsilon=1000.0)
    for number in range(1, 6):
        run = "run" if names == "one run" else f"run-{number}"
        replies, _ = federation.round(_ends_at(stage), plan=replace(PLAN, run=run, server_round=number))
    assert [len(member.paid()) for member in federation.members] == [3] * 5
    assert all("never opened" in replies[k]["refusal"]["reason"] for k in range(5))


def test_opened_sums_in_between_do_not_give_a_server_more(tmp_path, most_lost):
    """All that were lost count: a server could open every second one."""
    most_lost(2)
    federation = Federation(tmp_path, epsilon=1000.0)
    usual = lambda number, at, asked: asked  # noqa: E731
    for number in range(1, 5):
        hook = _ends_at(wire.OPEN) if number % 2 else usual
        replies, _ = federation.round(hook, plan=replace(PLAN, server_round=number))
    replies, _ = federation.round(usual, plan=replace(PLAN, server_round=5))
    assert total_of(replies) is None
    assert "never opened" in replies[0]["refusal"]["reason"]


def test_the_count_outlives_the_clients_process(tmp_path, most_lost):
    most_lost(1)
    Federation(tmp_path, epsilon=1000.0).round(_ends_at(wire.OPEN))
    again = Federation(tmp_path, epsilon=1000.0)
    replies, _ = again.round(plan=replace(PLAN, server_round=2))
    assert "never opened" in replies[0]["refusal"]["reason"]


def test_a_count_that_was_damaged_is_not_taken_for_none(tmp_path, most_lost):
    most_lost(1)
    federation = Federation(tmp_path, epsilon=1000.0)
    federation.round(_ends_at(wire.OPEN))
    for file in tmp_path.glob("*/kept/*.sums.json"):
        file.write_text("{")
    replies, _ = federation.round(plan=replace(PLAN, server_round=2))
    assert replies[0]["refusal"]["status"] == "failed"
    assert [len(member.paid()) for member in federation.members] == [1] * 5


def test_sums_of_two_federations_at_once_all_count(tmp_path):
    """Each has a client process of its own, with the same data."""

    def pay():
        for _ in range(20):
            LostRounds(tmp_path / "kept" / "data.sums.json").paid()

    threads = [threading.Thread(target=pay) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "kept" / "data.sums.json").read_text() == '{"paid": 80, "opened": 0}'
