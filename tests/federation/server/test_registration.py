"""Who is there: registrations, restarts, names, refusals."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from fl_dp.config.run import RunConfig
from fl_dp.errors import FlDpError
from fl_dp.federation.server import registration as module
from fl_dp.federation.server.client_record import shows_less
from fl_dp.federation.server.registration import SILENT, Registration
from fl_dp.federation.wire.messages import set_metadata
from fl_dp.records import Entry

CONFIG = RunConfig(clients=3, min_clients=2, fit_clients=2, noise_multiplier=2.0, round_timeout=0.3)


@pytest.fixture
def registration():
    return Registration(CONFIG)


def names(clients):
    return [client.name for client in clients]


def test_every_node_is_asked_once_when_it_comes_and_not_when_it_is_gone(registration, fakes):
    grid = fakes.Grid({2: fakes.Client("b"), 1: fakes.Client("c")})
    for _ in range(2):
        assert names(registration.gather(grid)) == ["b", "c"]
        assert len(grid.sent) == 2
    grid.nodes[3] = fakes.Client("a")
    assert names(registration.gather(grid)) == ["a", "b", "c"]
    del grid.nodes[2]
    assert names(registration.gather(grid)) == ["a", "c"]
    assert registration.why_idle(registration.clients["b"]) == "is not there"
    assert len(grid.sent) == 3


@pytest.mark.parametrize("size", [640, 2000])
def test_a_restarted_client_is_known_again_under_its_name(registration, fakes, size):
    """Its cost in the run so far is known, too, whatever size it declares now."""
    grid = fakes.Grid({1: fakes.Client("a"), 2: fakes.Client("b")})
    taken = Entry(0.1, 2.0, 10)
    first = registration.gather(grid)[0].having_taken(taken, (taken,))
    registration.update(replace(first, rounds=1))
    del grid.nodes[1]
    spent = (Entry(0.1, 2.0, 17),)  # 7 more in a round that got lost, or of another run
    grid.nodes[9] = fakes.Client("a", spent=spent, public_size=size)
    registration.gather(grid)
    again = registration.clients["a"]
    assert (again.node_id, again.cost.taken, again.rounds) == (9, 17, 1)
    assert again.cost_of_run.charges == (Entry(0.1, 2.0, 10),)


def test_a_client_that_comes_back_with_less_spent_is_refused_until_it_has_its_newest_ledger(
    registration, fakes
):
    grid = fakes.Grid({n: fakes.Client(str(n)) for n in (1, 2, 3)})
    client = registration.gather(grid)[0]
    client = registration.update(replace(client, spent=(Entry(0.1, 2.0, 10),)))
    del grid.nodes[1]
    grid.nodes[9] = fakes.Client("1", spent=(Entry(0.1, 2.0, 9),))
    assert names(registration.gather(grid)) == ["2", "3"]
    assert "restored from a backup" in registration.why_idle(registration.clients["1"])
    del grid.nodes[9]
    grid.nodes[10] = fakes.Client("1", spent=(Entry(0.1, 2.0, 10),))
    assert names(registration.gather(grid)) == ["1", "2", "3"]
    assert registration.why_idle(registration.clients["1"]) == ""


def test_the_noise_is_calibrated_once_and_kept_for_the_run(fakes):
    registration = Registration(replace(CONFIG, noise_multiplier="auto"))
    grid = fakes.Grid({1: fakes.Client("a"), 2: fakes.Client("b", epsilon=1.0)})
    first = [client.mechanism for client in registration.gather(grid)]
    assert first[0].noise_multiplier < first[1].noise_multiplier  # each within its own budget
    grid.nodes[1].spent = (Entry(0.1, 2.0, 10),)
    registration.ask_again(registration.clients["a"])
    assert [client.mechanism for client in registration.gather(grid)] == first


def test_a_client_that_has_not_confirmed_is_asked_again(registration, fakes):
    grid = fakes.Grid({1: fakes.Client("a"), 2: fakes.Client("b")})
    client = registration.update(registration.gather(grid)[0].not_confirming(Entry(0.1, 2.0, 5)))
    assert client.cost.taken == 5
    registration.ask_again(client)
    again = registration.gather(grid)[0]
    assert (again.name, again.cost.taken) == ("a", 0)  # its ledger shows that nothing was taken


def test_a_node_that_does_not_answer_holds_a_round_up_only_so_long(fakes, monkeypatch):
    """The same holds for one that joins again and again."""
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    grid = fakes.Grid({1: fakes.Client("a"), 2: fakes.Client("b"), 3: lambda message: None})
    patient = replace(CONFIG, round_timeout=3600.0)
    assert names(Registration(patient).gather(grid)) == ["a", "b"]
    nodes = grid.get_node_ids

    def joined_again():
        last = max(grid.nodes)
        grid.nodes[last + 1] = grid.nodes.pop(last)
        return nodes()

    monkeypatch.setattr(grid, "get_node_ids", joined_again)
    registration, times = Registration(patient), [0.0]
    monkeypatch.setattr(module, "PATIENCE", 60.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: times[-1]))
    monkeypatch.setattr(module, "pause", lambda started: times.append(times[-1] + 1.0))
    for server_round, seconds in ((1, 60.0), (2, 70.0)):  # less long where it is not the first
        registration.begin(server_round)
        assert names(registration.gather(grid)) == ["a", "b"]
        assert times[-1] == seconds


def test_a_wait_is_logged_once(registration, fakes, caplog):
    caplog.set_level("INFO")
    grid = fakes.Grid({1: fakes.Client("a")})
    with pytest.raises(FlDpError, match="needs min-clients = 2"):
        registration.gather(grid)
    assert caplog.text.count("waiting for 2 clients, 1 connected") == 1
    caplog.clear()
    grid.nodes[2] = fakes.Client("b")
    registration.gather(grid)
    assert "waiting for" not in caplog.text


def test_when_too_many_are_refused_it_does_not_wait_for_the_timeout(fakes):
    no_data = fakes.refuse("failed", "data = 'digits' cannot be read")
    grid = fakes.Grid({1: no_data, 2: no_data, 3: fakes.Client("c")})
    registration = Registration(replace(CONFIG, round_timeout=3600.0))
    with pytest.raises(FlDpError, match="2 refused: node 1, node 2: data = 'digits' cannot be read"):
        registration.gather(grid)


def with_delta(client, delta):
    plain = client.profile
    client.profile = lambda: replace(plain(), delta=delta, accountant="pld")
    return client


def test_a_delta_that_cannot_be_computed_with_is_refused(registration, fakes, caplog):
    precise = with_delta(fakes.Client("3"), 1e-90)
    grid = fakes.Grid({1: fakes.Client("1"), 2: fakes.Client("2"), 3: precise})
    assert names(registration.gather(grid)) == ["1", "2"]
    assert "node 3 does not take part in this run: delta" in caplog.text


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


def spent_clients(fakes, *numbers):
    return {n: fakes.Client(str(n), spent=(Entry(0.1, 0.5, 10_000),)) for n in numbers}


@pytest.fixture
def waits_for_nobody(monkeypatch):
    monkeypatch.setattr(module, "pause", lambda started: pytest.fail("it waits"))


def test_no_client_with_budget_is_no_error_and_refused_ones_are_not_waited_for(fakes, waits_for_nobody):
    """There are two clients without budget and a third, which has none either or is refused."""
    for third in (spent_clients(fakes, 3)[3], fakes.refuse("failed", "no data")):
        grid = fakes.Grid({**spent_clients(fakes, 1, 2), 3: third})
        assert Registration(CONFIG).gather(grid) == []


def test_a_client_that_may_still_come_is_waited_for(fakes, monkeypatch):
    """It may have budget where those that are there have none."""
    grid, looks = fakes.Grid(spent_clients(fakes, 1, 2)), []

    def get_node_ids():
        looks.append(1)
        if len(looks) == 3:
            grid.nodes[3] = fakes.Client("3")
        return list(grid.nodes)

    monkeypatch.setattr(grid, "get_node_ids", get_node_ids)
    assert names(Registration(replace(CONFIG, round_timeout=3600.0)).gather(grid)) == ["3"]


def test_a_client_with_another_number_of_records_has_another_mechanism(registration, fakes):
    """The sample rate depends on it. The number may change if a ledger was retired in between."""
    grid = fakes.Grid({1: fakes.Client("a"), 2: fakes.Client("b")})
    before = registration.gather(grid)[0]
    registration.update(replace(before, rounds=3))
    grid.nodes[1].public_size = 1280
    registration.ask_again(before)
    after = registration.gather(grid)[0]
    assert after.mechanism.sample_rate == before.mechanism.sample_rate / 2
    assert (after.mechanism.steps, after.rounds) == (2 * before.mechanism.steps, 3)


class Faulty:
    """A client whose disk is full while `full`; its Flower node still answers."""

    def __init__(self, client, refuse):
        self.client, self.full, self.asked = client, False, 0
        self._refuse = refuse("failed", "its ledger cannot be used; its own log says why")

    def __call__(self, message):
        self.asked += 1
        return self._refuse(message) if self.full else self.client(message)


def test_a_client_whose_fault_passes_is_asked_again_in_the_next_round(registration, fakes, caplog):
    faulty = Faulty(fakes.Client("3"), fakes.refuse)
    grid = fakes.Grid({1: fakes.Client("1"), 2: fakes.Client("2"), 3: faulty})
    client = registration.gather(grid)[2]
    faulty.full = True
    registration.ask_again(client)
    assert registration.why_idle(client) == "has not yet shown what its last round cost"
    for _ in range(2):
        assert names(registration.gather(grid)) == ["1", "2"]
        assert registration.why_idle(client) == "its ledger cannot be used; its own log says why"
    assert caplog.text.count("node 3 does not take part in this run") == 1  # said once, not in every round
    faulty.full = False
    assert names(registration.gather(grid)) == ["1", "2", "3"]
    assert registration.why_idle(registration.clients["3"]) == ""
    assert faulty.asked == 4


def test_a_round_waits_for_a_client_whose_fault_may_pass(fakes, monkeypatch):
    monkeypatch.setattr(module, "RETRY", 0.05)
    registration = Registration(replace(CONFIG, clients=2, round_timeout=3600.0))
    faulty = Faulty(fakes.Client("2"), fakes.refuse)
    grid = fakes.Grid({1: fakes.Client("1"), 2: faulty})
    client = registration.gather(grid)[1]
    faulty.full = True
    registration.ask_again(client)

    def get_node_ids():
        faulty.full = faulty.asked < 4
        return [1, 2]

    monkeypatch.setattr(grid, "get_node_ids", get_node_ids)
    assert names(registration.gather(grid)) == ["1", "2"]
    assert faulty.asked == 5


def test_no_round_waits_for_a_node_that_has_never_been_a_client(fakes, waits_for_nobody):
    registration = Registration(CONFIG)
    grid = fakes.Grid({1: fakes.Client("1"), 2: fakes.Client("2"), 3: fakes.refuse("failed", "no data")})
    registration.gather(grid)
    grid.nodes[3] = lambda message: None
    assert names(registration.gather(grid)) == ["1", "2"]


def test_an_answer_of_another_node_registers_nobody(registration, fakes):
    class Impostor(fakes.Client):
        def __call__(self, message):
            reply = super().__call__(message)
            set_metadata(reply, src_node_id=2)
            return reply

    grid = fakes.Grid({1: fakes.Client("1"), 2: fakes.Client("2"), 3: Impostor("3")})
    assert names(registration.gather(grid)) == ["1", "2"]


@pytest.mark.parametrize("delta", [1e-14, 1e-13])
def test_a_delta_that_can_be_resolved_for_a_while_never_ends_a_run(fakes, delta):
    """PLD resolves it over the first rounds only; then the client has no step left, and nothing raises."""
    registration = Registration(replace(CONFIG, min_clients=1))
    nodes = {n: with_delta(fakes.Client(str(n), epsilon=1000.0), delta) for n in (1, 2)}
    client = registration.gather(fakes.Grid(nodes))[0]
    for _ in range(30):
        client = client.not_confirming(Entry(0.1, 2.0, 10))
        client.rounds_left(1000)
    assert client.cost.epsilon > 0
    assert not client.can_take_part()


def test_joins_that_are_refused_are_security_events_once(registration, fakes, monkeypatch):
    told = []
    monkeypatch.setattr(module, "security_event", lambda event, why, who: told.append((event, who, why)))
    grid = fakes.Grid(
        {1: fakes.Client("1"), 2: fakes.Client("2"), 3: fakes.refuse("failed", "its ledger is full")}
    )
    for server_round in (1, 2):
        registration.begin(server_round)
        registration.gather(grid)
    assert told == [("join refused", "node 3", "its ledger is full")]


def test_a_client_that_misses_two_rounds_in_a_row_is_not_asked_until_the_server_restarts(fakes):
    """Joining anew changes nothing; an answer in between resets the count."""
    registration = Registration(replace(CONFIG, clients=4))
    grid = fakes.Grid({n: fakes.Client(str(n)) for n in (1, 2, 3)})

    def here(server_round, **answered):
        registration.begin(server_round)
        found = names(registration.gather(grid))
        for name, did in answered.items():
            registration.note(registration.clients[name[1:]], answered=did)
        return found

    assert here(1, _3=False) == here(2, _3=True) == here(3, _3=False) == here(4, _3=False) == ["1", "2", "3"]
    grid.nodes[4] = grid.nodes.pop(3)
    assert here(5) == ["1", "2"]
    assert registration.why_idle(registration.clients["3"]) == SILENT
    assert registration.clients["3"].node_id == 4  # it says what its rounds have cost
    restarted = Registration(replace(CONFIG, clients=4))
    restarted.restore(registration.clients.values(), registration.registered)
    assert names(restarted.gather(grid)) == ["1", "2", "3"]


def test_a_run_that_has_too_few_without_the_silent_ends_at_once_and_names_them(fakes):
    registration = Registration(replace(CONFIG, clients=2, round_timeout=3600.0))
    grid = fakes.Grid({1: fakes.Client("1"), 2: fakes.Client("2")})
    registration.gather(grid)
    for _ in range(2):
        registration.note(registration.clients["2"], answered=False)
    with pytest.raises(FlDpError, match=f"needs min-clients = 2 clients, 1 are connected .* 2 {SILENT}"):
        registration.gather(grid)


def test_a_silent_client_ends_no_run_that_has_enough_others(fakes, monkeypatch):
    """There are three sites, where two are planned; one joins anew and is waited for."""
    registration = Registration(replace(CONFIG, clients=2, round_timeout=3600.0))
    grid = fakes.Grid({n: fakes.Client(str(n)) for n in (1, 2, 3)})
    registration.gather(grid)
    for _ in range(2):
        registration.note(registration.clients["3"], answered=False)
    grid.nodes[4], waits = lambda message: None, []
    monkeypatch.setattr(module, "pause", lambda started: waits.append(grid.nodes.pop(4)))
    assert names(registration.gather(grid)) == ["1", "2"]
    assert len(waits) == 1


def test_a_site_that_is_briefly_gone_is_waited_for_even_if_others_were_refused(fakes, monkeypatch):
    """Found by a soak: a refused site beyond the planned number counted as one of them."""
    registration = Registration(replace(CONFIG, round_timeout=3600.0))
    grid = fakes.Grid({n: fakes.Client(str(n)) for n in (1, 2, 3)} | {4: fakes.refuse("failed", "no data")})
    registration.gather(grid)
    for _ in range(2):
        registration.note(registration.clients["3"], answered=False)
    two = grid.nodes.pop(2)
    monkeypatch.setattr(module, "pause", lambda started: grid.nodes.update({2: two}))
    assert names(registration.gather(grid)) == ["1", "2"]


def test_a_client_of_a_resumed_run_keeps_the_epsilon_of_the_run(registration, fakes):
    known = registration.gather(fakes.Grid({1: fakes.Client("1"), 2: fakes.Client("2")}))
    resumed = Registration(replace(CONFIG, epsilon=1.0))
    resumed.restore(known, ["1"])
    assert [one.run_epsilon for one in resumed.clients.values()] == [1.0, 1.0]
