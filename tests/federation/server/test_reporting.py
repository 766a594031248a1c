"""What stands in the reports of rounds."""

from federation.server.short_run import run, settings, statuses
from flwr.app import MetricRecord


def test_every_known_client_stands_in_every_line(fakes):
    config = settings(clients=4, min_clients=4, fit_clients=1, rounds=2)
    strategy, _ = run([fakes.Client(str(i)) for i in range(4)], fakes, config)
    assert all(len(report.clients) == 4 for report in strategy.reports)
    assert sorted(statuses(strategy, 1).values()) == ["idle", "idle", "idle", "trained"]


def test_the_evaluation_of_each_round_stands_in_its_report(fakes):
    def evaluate(server_round, arrays):
        return MetricRecord({"loss": float(arrays["weight"].numpy().mean()), "accuracy": server_round / 10})

    strategy, _ = run([fakes.Client("0"), fakes.Client("1")], fakes, evaluate=evaluate)
    assert [(r.loss, r.accuracy) for r in strategy.reports] == [(1.0, 0.1), (2.0, 0.2), (3.0, 0.3)]
    assert all(report.seconds > 0 for report in strategy.reports)


def test_what_is_not_evaluated_has_no_loss(fakes):
    """Without something to evaluate with in any round; else in the rounds that are due, and in the last."""
    asked = []

    def evaluate(server_round, arrays):
        asked.append(server_round)
        return MetricRecord({"loss": 1.0, "accuracy": 0.5})

    clients = [fakes.Client("0"), fakes.Client("1")]
    assert run(clients, fakes, settings(rounds=1))[0].reports[0].loss is None
    strategy, _ = run(clients, fakes, settings(rounds=5, evaluate_every=2), evaluate=evaluate)
    assert asked == [2, 4, 5]
    assert [report.loss for report in strategy.reports] == [None, 1.0, None, 1.0, 1.0]


def test_a_number_of_the_client_stands_in_its_line(fakes):
    nodes = [fakes.Client("0"), fakes.Client("1", mishaps={1: fakes.Refusal("declined", "no")})]
    strategy, _ = run(nodes, fakes, settings(rounds=1))
    clients = strategy.reports[0].to_dict()["clients"]
    assert clients["0"]["reported"]["steps"] == 10
    assert clients["1"]["reported"] == {}
