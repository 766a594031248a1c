"""Runs that were killed and go on."""

from dataclasses import replace

import numpy as np
import pytest
from federation.server.short_run import START, TRAINABLE, Killed, run, settings, weights
from flwr.app import Message

from fl_dp.federation.server.strategy import PrivateStrategy
from fl_dp.federation.wire.arrays import encode
from fl_dp.federation.wire.messages import plan_from_content


def resumable(fakes, config, states, kill=lambda moment, server_round: None):
    """A new process on the same disks: the strategy as `states` left it, to which it adds. `kill` is asked at
    every moment at which the run may end.
    """
    strategy = PrivateStrategy(config, "run-1", TRAINABLE, lambda r: keep("over", r), lambda: keep("known"))

    def keep(moment, report=None):
        states.append(strategy.state(1.0))
        kill(moment, report.round if report else 0)

    if states:
        strategy.resume(states[-1])
    return strategy


class SameAgain:
    """A simulated client: asked again for a round it gives the same update, and pays for it once."""

    def __init__(self, client, kill):
        self.client, self.kill, self.paid = client, kill, {}

    def __call__(self, message):
        if message.metadata.message_type == "query":
            return self.client(message)
        number = plan_from_content(message.content)[0].server_round
        content = self.paid.get(number) or self.client(message).content
        self.paid[number] = content
        self.kill("asked", number)
        return Message(content, reply_to=message)


def lines_and_weights(fakes, config, make_grid, deaths):
    """A run that is killed and resumed at each of the moments: its lines, weights and budgets.

    make_grid: is given what kills, and gives a grid each time that the run begins or goes on.
    """

    def kill(*at):
        if at in deaths:
            deaths.remove(at)
            raise Killed

    fresh = resumable(fakes, config, [])
    beginning = replace(fresh.state(0.0), arrays=START, secret=b"all runs choose alike")
    states, lines, grid = [beginning], {}, make_grid(kill)
    while True:
        strategy = resumable(fakes, config, states, kill)
        try:
            strategy.start(grid(), encode(states[-1].arrays))
        except Killed:
            continue
        finally:
            lines |= {one.round: replace(one, seconds=0.0) for one in strategy.reports}
        assert not deaths
        return lines, weights(strategy)["weight"], strategy.reporting.budgets()


@pytest.mark.parametrize("moment", ["known", "asked", "over"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"sampling": "poisson"},
        {"server_optimizer": "fedadam"},
        {"aggregation": "median"},
        {"noise_multiplier": "auto"},
    ],
    ids=str,
)
def test_a_run_killed_at_any_moment_and_resumed_is_the_run_that_was_not(fakes, moment, changes):
    config = settings(clients=6, min_clients=6, fit_clients=3, rounds=8, **changes)
    spent = []

    def make_grid(kill):
        clients = [fakes.Client(str(i), epsilon=1.0 + i / 4) for i in range(6)]
        spent.append(clients)
        nodes = {10 + i: SameAgain(client, kill) for i, client in enumerate(clients)}
        return lambda: fakes.Grid(nodes)

    deaths = {(moment, r) for r in ((0,) if moment == "known" else (1, 4, 8))}
    straight, broken = (lines_and_weights(fakes, config, make_grid, one) for one in (set(), deaths))
    assert len(straight[0]) == 8
    assert broken[0] == straight[0]
    np.testing.assert_array_equal(broken[1], straight[1])
    assert broken[2] == straight[2]
    assert [one.spent for one in spent[0]] == [one.spent for one in spent[1]]


def test_under_a_new_name_a_round_that_nobody_knows_of_counts_until_the_client_registers(fakes):
    grid = fakes.Grid({11: fakes.Client("0"), 12: fakes.Client("1")})
    first = PrivateStrategy(settings(rounds=1), "run-1", TRAINABLE, lambda report: None)
    first.start(grid, encode(START))
    state = replace(first.state(1.0), secret=b"s" * 32)
    second = PrivateStrategy(settings(min_clients=1), "run-2", TRAINABLE, lambda report: None)
    second.resume(state)
    assert [budget.steps for budget in second.reporting.budgets().values()] == [20, 20]
    again = fakes.Grid({11: grid.nodes[11]})  # a node whose registration under the earlier name is known
    second.start(again, encode(state.arrays))
    assert [report.round for report in second.reports] == [1, 2, 3]
    assert {name: one.steps for name, one in second.reports[-1].clients.items()} == {"0": 30, "1": 20}
    assert len([one for one in again.sent if one.metadata.message_type == "query"]) == 1
    assert {plan.run for plan in grid.nodes[11].plans} == {"run-1", "run-2"}


def test_a_full_disk_costs_rounds_while_it_is_full_and_no_more(fakes):
    """As was once observed: the ledger cannot be opened for two rounds, in a round and at registration."""

    class Full(fakes.Client):
        registrations = 0

        def __call__(self, message):
            self.registrations += message.metadata.message_type == "query"
            if self.registrations == 2 or (self.registrations == 1 and self.plans):
                return fakes.refuse("failed", "its ledger cannot be used; its own log says why")(message)
            return super().__call__(message)

    config = settings(min_clients=1, rounds=5)
    strategy, _ = run([fakes.Client("0", epsilon=9.0), Full("1", epsilon=9.0)], fakes, config)
    found = [(report.clients["1"].status, report.clients["1"].reason) for report in strategy.reports]
    unusable = "its ledger cannot be used; its own log says why"
    assert found == [
        ("trained", ""),
        ("failed", unusable),
        ("idle", unusable),
        ("trained", ""),
        ("trained", ""),
    ]
