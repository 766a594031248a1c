"""What stands in the reports of rounds."""

from federation.server.short_run import run, settings
from flwr.app import MetricRecord


def test_the_evaluation_of_a_round_stands_in_its_report_and_what_is_not_evaluated_has_no_loss(fakes):
    """Without something to evaluate with in any round; else in the rounds that are due, and in the last."""
    asked = []

    def evaluate(server_round, arrays):
        asked.append(server_round)
        return MetricRecord({"loss": float(server_round), "accuracy": server_round / 10})

    clients = [fakes.Client("0"), fakes.Client("1")]
    assert run(clients, fakes, settings(rounds=1))[0].reports[0].loss is None
    strategy, _ = run(clients, fakes, settings(rounds=5, evaluate_every=2), evaluate=evaluate)
    assert asked == [2, 4, 5]
    found = [(report.loss, report.accuracy) for report in strategy.reports]
    assert found == [(None, None), (2.0, 0.2), (None, None), (4.0, 0.4), (5.0, 0.5)]
    assert all(report.seconds > 0 for report in strategy.reports)


def test_a_number_of_the_client_stands_in_its_line(fakes):
    nodes = [fakes.Client("0"), fakes.Client("1", mishaps={1: fakes.Refusal("declined", "no")})]
    strategy, _ = run(nodes, fakes, settings(rounds=1))
    clients = strategy.reports[0].to_dict()["clients"]
    assert clients["0"]["reported"]["steps"] == 10
    assert clients["1"]["reported"] == {}
