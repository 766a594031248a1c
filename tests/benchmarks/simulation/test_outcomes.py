from made_up_runs import case, outcome, seen

from benchmarks.simulation import outcomes
from benchmarks.simulation.watch import NotMeasured


def test_the_first_round_and_the_last_do_not_count_and_runs_that_do_not_tell_are_left_out():
    two_runs = outcome("A", "digits", seen(1, 2, training=None), seen(3, 4, training=0.7))
    assert two_runs.round_seconds == [1, 2, 3, 4]
    assert two_runs.round == 2.5
    assert two_runs.median(lambda run: run.training_share) == 0.7
    assert outcome("A", "digits").median(lambda run: run.training_share) is None


def test_cases_take_turns_and_one_that_has_ended_is_not_started_again(monkeypatch):
    started = []

    def refuse(folder):
        started.append("B")
        raise NotMeasured("skipped", "too large")

    def watch(command, limit):
        started.append(command)
        return seen(1)

    monkeypatch.setattr(outcomes, "watch", watch)
    a, b = outcomes.run_all([case("A", "digits", lambda _: "A"), case("B", "digits", refuse)], 2, limit=1)
    assert started == ["A", "B", "A"]
    assert len(a.seen) == 2
    assert b.ended.word == "skipped"
