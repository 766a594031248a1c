"""Who is there: greetings, restarts, names, refusals."""

from dataclasses import replace

import pytest

from fl_dp.config.run import RunConfig
from fl_dp.errors import FlDpError
from fl_dp.federation.server import registration as roster_module
from fl_dp.federation.server.client_record import shows_less
from fl_dp.federation.server.registration import Roster
from fl_dp.records import Entry

CONFIG = RunConfig(clients=3, min_clients=2, fit_clients=2, noise_multiplier=2.0, round_timeout=0.3)


@pytest.fixture
def roster():
    return Roster(CONFIG)


def names(members):
    return [member.name for member in members]


def test_every_node_is_greeted_once(roster, fakes):
    grid = fakes.Grid({1: fakes.Client("b"), 2: fakes.Client("a")})
    assert names(roster.gather(grid)) == ["a", "b"]
    assert names(roster.gather(grid)) == ["a", "b"]
    assert len(grid.sent) == 2


def test_a_node_that_comes_later_is_greeted_then(roster, fakes):
    grid = fakes.Grid({1: fakes.Client("a"), 2: fakes.Client("b")})
    roster.gather(grid)
    grid.nodes[3] = fakes.Client("c")
    assert names(roster.gather(grid)) == ["a", "b", "c"]


def test_a_node_that_is_gone_is_not_asked(roster, fakes):
    grid = fakes.Grid({n: fakes.Client(str(n)) for n in (1, 2, 3)})
    roster.gather(grid)
    del grid.nodes[2]
    assert names(roster.gather(grid)) == ["1", "3"]
    assert roster.why_idle(roster.members["2"]) == "is not there"


def test_a_restarted_client_is_known_again_under_its_name(roster, fakes):
    grid = fakes.Grid({1: fakes.Client("a"), 2: fakes.Client("b")})
    first = roster.gather(grid)[0]
    first.spent = (Entry(0.1, 2.0, 10),)
    del grid.nodes[1]
    grid.nodes[9] = fakes.Client("a", spent=(Entry(0.1, 2.0, 17),))  # 7 more in a round that got lost
    first.rounds = 1
    again = roster.gather(grid)[0]
    assert (again.node_id, again.steps(), again.rounds) == (9, 17, 1)


def test_a_client_that_comes_back_with_less_spent_is_refused(roster, fakes):
    grid = fakes.Grid({n: fakes.Client(str(n)) for n in (1, 2, 3)})
    roster.gather(grid)[0].spent = (Entry(0.1, 2.0, 10),)
    del grid.nodes[1]
    grid.nodes[9] = fakes.Client("1", spent=(Entry(0.1, 2.0, 9),))
    assert names(roster.gather(grid)) == ["2", "3"]
    assert "restored from a backup" in roster.why_idle(roster.members["1"])


def test_a_refused_client_may_come_back_with_its_newest_ledger(roster, fakes):
    grid = fakes.Grid({n: fakes.Client(str(n)) for n in (1, 2, 3)})
    roster.gather(grid)[0].spent = (Entry(0.1, 2.0, 10),)
    for node, steps in ((8, 9), (9, 10)):
        grid.nodes = {
            2: grid.nodes[2],
            3: grid.nodes[3],
            node: fakes.Client("1", spent=(Entry(0.1, 2.0, steps),)),
        }
        back = names(roster.gather(grid))
    assert back == ["1", "2", "3"]
    assert roster.why_idle(roster.members["1"]) == ""


def test_the_noise_is_calibrated_once_and_kept_for_the_run(fakes):
    roster = Roster(replace(CONFIG, noise_multiplier="auto"))
    grid = fakes.Grid({1: fakes.Client("a"), 2: fakes.Client("b", epsilon=1.0)})
    first = [member.mechanism for member in roster.gather(grid)]
    assert first[0].noise_multiplier < first[1].noise_multiplier  # each within its own budget
    grid.nodes[1].spent = (Entry(0.1, 2.0, 10),)
    roster.greet_again(roster.members["a"])
    assert [member.mechanism for member in roster.gather(grid)] == first


def test_a_member_without_account_is_greeted_again(roster, fakes):
    grid = fakes.Grid({1: fakes.Client("a"), 2: fakes.Client("b")})
    member = roster.gather(grid)[0]
    member.count_as_spent(Entry(0.1, 2.0, 5))
    assert member.steps() == 5
    roster.greet_again(member)
    again = roster.gather(grid)[0]
    assert (again.name, again.steps()) == ("a", 0)  # its ledger shows that nothing was taken


def test_a_node_that_does_not_answer_holds_a_round_up_only_so_long(roster, fakes, monkeypatch):
    monkeypatch.setattr(roster_module, "PATIENCE", 0.05)
    grid = fakes.Grid({1: fakes.Client("a"), 2: fakes.Client("b"), 3: lambda message: None})
    assert names(roster.gather(grid)) == ["a", "b"]


def test_when_too_many_are_refused_it_does_not_wait_for_the_timeout(fakes):
    no_data = fakes.refuse("failed", "data = 'digits' cannot be read")
    grid = fakes.Grid({1: no_data, 2: no_data, 3: fakes.Client("c")})
    roster = Roster(replace(CONFIG, round_timeout=3600.0))
    with pytest.raises(FlDpError, match="2 were refused: data = 'digits' cannot be read"):
        roster.gather(grid)


def test_a_delta_that_cannot_be_computed_with_is_refused(roster, fakes, caplog):
    class Precise(fakes.Client):
        def profile(self):
            return replace(super().profile(), delta=1e-300, accountant="pld")

    grid = fakes.Grid({1: fakes.Client("1"), 2: fakes.Client("2"), 3: Precise("3")})
    assert names(roster.gather(grid)) == ["1", "2"]
    assert "node 3 is no part of this run: delta" in caplog.text


def test_nobody_with_budget_is_no_error(roster, fakes):
    spent = (Entry(0.1, 0.5, 10_000),)
    grid = fakes.Grid({n: fakes.Client(str(n), spent=spent) for n in (1, 2, 3)})
    assert roster.gather(grid) == []


def test_a_client_not_seen_yet_may_still_have_budget(roster, fakes):
    spent = (Entry(0.1, 0.5, 10_000),)
    poor = {n: fakes.Client(str(n), spent=spent) for n in (1, 2)}

    class Late(fakes.Grid):
        looks = 0

        def get_node_ids(self):
            self.looks += 1
            if self.looks == 2:
                self.nodes[3] = fakes.Client("3")
            return super().get_node_ids()

    assert names(roster.gather(Late(poor))) == ["3"]


@pytest.mark.parametrize(
    ("shown", "less"),
    [
        ((Entry(0.1, 1.0, 5), Entry(0.2, 1.0, 1)), False),
        ((Entry(0.1, 1.0, 3), Entry(0.1, 1.0, 2)), False),  # not merged
        ((Entry(0.1, 1.0, 4), Entry(0.2, 1.0, 9)), True),
        ((Entry(0.1, 2.0, 5),), True),
        ((), True),
    ],
)
def test_shows_less(shown, less):
    assert shows_less(shown, (Entry(0.1, 1.0, 5),)) is less
