"""When a round is closed; answers that are late, malformed or lies, and what then counts as spent."""

from dataclasses import replace

import numpy as np
import pytest
from federation.server.short_run import START, adding_up, run, settings, strategy_of, weights
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from local_updates import local_update

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.federation.server.ask import Asked
from fl_dp.federation.server.client_record import ClientRecord
from fl_dp.federation.server.verify import LEAST_PATIENCE, Quorum, ReplyVerifier, is_update
from fl_dp.federation.wire.arrays import encode, specs
from fl_dp.federation.wire.messages import refusal_to_content, set_metadata, update_to_content
from fl_dp.federation.wire.partial_sums import make_group
from fl_dp.records import ClientProfile, Entry, Refusal, RoundPlan


@pytest.fixture(autouse=True)
def _a_quorum_counts_the_updates_that_stand(monkeypatch):
    """For every reply of this file: it sets the pace of a round exactly if its update stands."""

    plain = ReplyVerifier._settle

    def checked(self, asked, reply, *, in_group):
        counts = reply is not None and not in_group and is_update(reply, asked, self._expected)
        verdict = plain(self, asked, reply, in_group=in_group)
        assert in_group or counts == (verdict.status == "trained")
        return verdict

    monkeypatch.setattr(ReplyVerifier, "_settle", checked)


def test_a_silent_clients_plan_counts_as_spent_until_it_registers_again(fakes):
    nodes = [fakes.Client("0"), fakes.Client("1", mishaps={1: None})]
    strategy, grid = run(nodes, fakes, settings(rounds=2))
    first, second = (report.clients["1"] for report in strategy.reports)
    assert (first.steps, second.steps) == (10, 10)  # counted in round 1, not taken; taken in round 2
    assert first.epsilon == strategy.reports[0].clients["0"].epsilon
    assert [m.metadata.dst_node_id for m in grid.sent if m.metadata.message_type == "query"] == [11, 12, 12]


def test_the_possible_cost_never_exceeds_the_clients_own_budget(fakes):
    nodes = [fakes.Client("0", epsilon=0.8, mishaps={1: None})]
    config = settings(clients=1, min_clients=1, fit_clients=1, rounds=1, local_epochs=50.0)
    strategy, _ = run(nodes, fakes, config)
    assert 0 < strategy.reports[0].clients["0"].epsilon <= 0.8


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (lambda u: {"steps": 11}, "claims 11 steps, was asked for 10"),
        (lambda u: {"steps": 0}, "claims 0 steps"),
        (lambda u: {"epsilon": u.epsilon - 1e-3}, "claims epsilon"),
        (lambda u: {"epsilon": 0.1234561}, "claims epsilon 0.123457, its mechanism costs"),  # rounded up
        (lambda u: {"epsilon": float("nan")}, "impossible epsilon"),
        (lambda u: {"delta": 1e-3}, "claims delta 0.001"),
        (lambda u: {"arrays": {}}, "missing ['weight']"),
        (lambda u: {"arrays": {"weight": np.zeros(6, np.float32)}}, "expected (2, 3)"),
        (lambda u: {"arrays": {"weight": np.full((2, 3), np.nan, np.float32)}}, "not finite"),
    ],
)
def test_an_update_whose_claim_does_not_match_is_dropped(fakes, lie, reason):
    liar = fakes.Client("1", lie=lambda update: replace(update, **lie(update)))
    strategy, _ = run([fakes.Client("0"), liar], fakes, settings(rounds=1))
    liar = strategy.reports[0].clients["1"]
    assert liar.status == "failed"
    assert reason in liar.reason
    np.testing.assert_array_equal(weights(strategy)["weight"], np.ones((2, 3), np.float32))
    assert liar.epsilon >= strategy.reports[0].clients["0"].epsilon  # what it may have spent


def test_an_update_over_the_clients_own_budget_is_dropped(fakes):
    class Overspender(fakes.Client):
        def profile(self):
            return replace(super().profile(), epsilon=1.0)  # what it says; it spends up to 3

    strategy, _ = run([fakes.Client("0"), Overspender("1")], fakes, settings(rounds=2))
    assert strategy.reports[0].clients["1"].status == "trained"
    second = strategy.reports[1].clients["1"]
    assert second.status == "failed"
    assert "over its budget of 1" in second.reason
    np.testing.assert_array_equal(weights(strategy)["weight"], np.full((2, 3), 2, np.float32))


JUNK = ArrayRecord({"weight": Array("float32", (2,), "x", b"junk")})


@pytest.mark.parametrize(
    ("reply", "status", "words"),
    [
        (RecordDict(), "failed", "record"),
        (RecordDict({"arrays": JUNK}), "failed", "record"),
        (Refusal("failed", " \n"), "failed", "it gave no reason"),
        (Refusal("declined", " \n"), "declined", "it gave no reason"),
    ],
)
def test_a_malformed_reply_and_a_refusal_without_a_reason_are_reported_in_words(fakes, reply, status, words):
    nodes = [fakes.Client("0"), fakes.Client("1", mishaps={1: reply})]
    strategy, _ = run(nodes, fakes, settings(rounds=1))
    found = strategy.reports[0].clients["1"]
    assert found.status == status
    assert words in found.reason


def test_a_sum_that_is_lost_leaves_no_round_that_was_trained(fakes):
    """Two clients answer for a group whose sum never comes: the average contains neither."""

    class WithoutSum(fakes.Client):
        def __call__(self, message):
            reply = super().__call__(message)
            if message.metadata.message_type == "train":
                reply.content["group"] = ConfigRecord({"group": "1"})
                reply.content["arrays"] = ArrayRecord()
            return reply

    strategy = strategy_of(settings(rounds=1))
    strategy.start(adding_up(fakes, WithoutSum("0"), WithoutSum("1")), encode(START))
    clients = strategy.reports[0].clients.values()
    assert {(client.status, client.steps) for client in clients} == {("failed", 10)}  # and it is paid for
    assert {one.rounds for one in strategy.reporting.budgets().values()} == {0}
    assert strategy.outcome()[0] == "failed"
    np.testing.assert_array_equal(weights(strategy)["weight"], START["weight"])


ASKED_FOR = Entry(0.1, 4.0, 1, shares=3)
WITH_FEWER = replace(ASKED_FOR, shares=2)


class Registered:
    """Notes who is to register again, and the clients' records."""

    def __init__(self):
        self.again, self.clients = [], {}

    def update(self, client):
        self.clients[client.name] = client

    def ask_again(self, client):
        self.again.append(client.name)

    def note(self, client, *, answered):
        assert answered


def judged(paid, shares, total, claimed=None):
    """Two members that were asked for a share of three, and paid for `paid`; their sum is of `shares`.

    claimed: what the second says that it paid, if not that.
    """
    asked, contents = [], {}
    for number in (1, 2):
        profile = ClientProfile(str(number), 640, 3.0, 1e-5, (), "rdp", allow_secure_sum=True)
        message = Message(RecordDict(), number, "train")
        set_metadata(message, message_id=f"m{number}")
        plan = RoundPlan("run", 1, "linear", 1, 64, 1.0, 0.0, 4.0, 1.0, shares=3)
        asked.append(Asked(ClientRecord(profile, number, (), ASKED_FOR), ASKED_FOR, 1.0, message, True, plan))
        spent = claimed if claimed and number == 2 else (paid,)
        epsilon = compute_epsilon(spent, 1e-5, "rdp")
        contents[f"m{number}"] = update_to_content(local_update({}, spent, 1, epsilon, 1e-5))
    make_group(contents, list(contents), total, shares=shares, lost="" if total else "too few are left")
    replies = [Message(contents[one.message.metadata.message_id], reply_to=one.message) for one in asked]
    registered = Registered()
    expected = specs({"weight": np.zeros((2, 3), np.int64)})
    found = ReplyVerifier(registered, expected).judge(asked, replies)
    return found, list(registered.clients.values()), registered


@pytest.mark.parametrize("shares", [2, 3])
def test_a_sum_that_a_member_did_not_join_is_paid_for_with_fewer_shares(shares):
    """A share of three was asked for. Each has paid for the sum as it was, and its line says so."""
    paid = replace(ASKED_FOR, shares=shares)
    found, clients, registered = judged(paid, shares, {"weight": np.ones((2, 3), np.int64)})
    assert {one.status for one in found.verdicts.values()} == {"trained"}
    assert {one.mechanism for one in found.verdicts.values()} == {paid}
    assert [(one.spent, one.rounds, one.unconfirmed) for one in clients] == [((paid,), 1, ())] * 2
    assert (found.standing, len(found.sums), found.sums[0].shares, registered.again) == (2, 1, shares, [])
    assert [one.client.name for one in found.summed] == ["1", "2"]


def test_a_lost_sum_is_paid_for_with_the_shares_that_it_had():
    found, clients, _ = judged(WITH_FEWER, 2, None)
    assert {(one.status, one.reason) for one in found.verdicts.values()} == {("failed", "too few are left")}
    assert {one.mechanism for one in found.verdicts.values()} == {WITH_FEWER}
    assert [(one.spent, one.rounds) for one in clients] == [((WITH_FEWER,), 0)] * 2
    assert (found.standing, found.sums, found.summed) == (0, [], [])


def test_a_member_whose_shares_differ_from_those_of_its_sum_fails():
    """The step with a share of two, which it does not show, counts as spent; it must register again."""
    found, clients, registered = judged(ASKED_FOR, 2, {"weight": np.ones((2, 3), np.int64)})
    assert {one.status for one in found.verdicts.values()} == {"failed"}
    assert [(one.spent, one.rounds) for one in clients] == [((WITH_FEWER,), 0)] * 2
    assert registered.again == ["1", "2"]


def test_an_opened_sum_is_kept_whatever_one_member_reports():
    """Its ledger shows a step of another run: the sum stands, and the member must register again."""
    total = {"weight": np.ones((2, 3), np.int64)}
    of_others = (ASKED_FOR, Entry(0.2, 4.0, 1))
    found, clients, registered = judged(ASKED_FOR, 3, total, claimed=of_others)
    assert [one.client.name for one in found.summed] == ["1", "2"]
    np.testing.assert_array_equal(found.sums[0].arrays["weight"], total["weight"])
    assert found.standing == 2  # as many as were opened: no fewer than K - d
    one, other = found.verdicts.values()
    assert (one.status, other.status, other.confirmed) == ("trained", "failed", False)
    assert "its ledger does not show" in other.reason
    assert (clients[0].rounds, clients[1].rounds) == (1, 0)
    assert registered.again == ["2"]


def test_a_lost_sum_counts_no_round_for_its_members():
    found, clients, _ = judged(ASKED_FOR, 3, None, claimed=(ASKED_FOR, Entry(0.2, 4.0, 1)))
    assert [client.rounds for client in clients] == [0, 0]
    reasons = [one.reason for one in found.verdicts.values()]
    assert "too few are left" in reasons[0]
    assert "its ledger does not show" in reasons[1]


class Round:
    """Clients "0" to "4". new: never asked before."""

    def __init__(self, *, needed=1, steps=(10,) * 5, new=()):
        asked = {str(i): number for i, number in enumerate(steps)}
        self.missing = list(asked)
        self.quorum = Quorum(asked, needed, lambda name, reply: "update" in reply.content, new)

    def at(self, seconds, *names, content=None):
        """Whether it is closed that long after its beginning, when these have answered too."""
        for name in names:
            reply = Message(content or RecordDict({"update": ConfigRecord({})}), 1, "train")
            assert self.quorum.noted(name, reply) is reply
            self.missing.remove(name)
        return self.quorum.is_closed(self.missing, seconds)

    def closes(self):
        """The first second, from the quorum on, at which it is closed; 10,000: never."""
        return next((second for second in range(10_000) if self.at(second)), 10_000)


def test_the_others_have_grace_times_the_time_of_the_first_half():
    one = Round()
    assert not one.at(10, "0", "1")  # two of five are no quorum, however long it takes
    assert not one.at(900)
    assert not one.at(1000, "2")
    assert not one.at(2999)
    assert one.at(3000)


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({}, 300),
        ({"steps": (10, 10, 10, 20, 35)}, 1050),  # 3.5 times the work
        ({"steps": (10, 10, 40, 20, 40)}, 300),
        ({"steps": (10, 10, 10, 20, 10**6)}, 3000),  # ten times: its size is its own word
        ({"needed": 4}, 10_000),
        ({"new": "4"}, 10_000),  # it may have to ask its operator
        ({"new": "0"}, 300),
    ],
)
def test_what_grace_depends_on(settings, seconds):
    one = Round(**settings)
    one.at(100, "0", "1", "2")
    assert one.closes() == seconds


def test_a_short_round_waits_ten_seconds():
    one = Round()
    assert not one.at(0.5, "0", "1", "2")
    assert not one.at(0.4 + LEAST_PATIENCE)
    assert one.at(0.5 + LEAST_PATIENCE)


@pytest.mark.parametrize(
    "content", [refusal_to_content(Refusal("declined", "no")), RecordDict({"junk": ConfigRecord({})})]
)
def test_only_updates_set_the_pace_of_a_round(content):
    """Otherwise three sites that answer junk at once would cut off two that train and pay."""
    one = Round()
    assert not one.at(1, "0", "1", "2", content=content)
    assert not one.at(500, "3")
    assert one.closes() == 10_000
