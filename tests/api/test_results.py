"""Tables of a study: means, paired differences and the epsilon of choosing, by hand."""

import math

import pandas as pd
import pytest

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.api.result import Result
from fl_dp.api.results import Results, composed, together_of
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.records import Entry

ROWS = [
    ("a", 1, 0, 0.50, 0.9),
    ("b", 1, 0, 0.60, 0.9),
    ("a", 8, 0, 0.70, 7.9),
    ("b", 8, 0, 0.70, 7.9),
    ("a", 1, 1, 0.52, 1.0),
    ("b", 1, 1, 0.66, 1.0),
    ("a", 8, 1, 0.74, 8.0),
    ("b", 8, 1, 0.71, 8.0),
]
RUNS = pd.DataFrame(ROWS, columns=["method", "budget", "seed", "accuracy", "epsilon"])
FOUND = Results(RUNS.assign(together=12.341, folder="f"), pd.DataFrame(), ("method", "budget"), 1e-5)


def test_a_difference_is_taken_seed_by_seed():
    table = FOUND.difference("b", "a")
    assert list(table.columns) == ["mean", "standard error", "seeds"]
    one, eight = table.loc[1], table.loc[8]
    assert one["mean"] == pytest.approx((0.10 + 0.14) / 2)
    assert one["standard error"] == pytest.approx(0.02)  # of 0.10 and 0.14; of the methods apart it is larger
    assert eight["mean"] == pytest.approx(-0.015)
    assert list(table["seeds"]) == [2, 2]
    only = Results(FOUND.runs[FOUND.runs["budget"] == 1].drop(columns="budget"), FOUND.rounds, ("method",))
    assert only.difference("b", "a").loc["b - a", "mean"] == pytest.approx(0.12)
    with pytest.raises(ConfigError, match="method = 'c': no run has it; there are a, b"):
        FOUND.difference("c", "a")
    with pytest.raises(ConfigError, match="auroc: no such column; there are method"):
        FOUND.difference("b", "a", y="auroc")


def test_it_prints_means_with_errors_and_what_choosing_costs():
    text = repr(FOUND)
    assert "0.510  0.010" in text
    assert text.endswith("the choice of one, cost the same records epsilon 12.35 at delta 1e-05")
    assert "folder" not in text
    some = FOUND.runs.assign(epsilon=[math.nan, *FOUND.runs["epsilon"][1:]])
    assert Results(some, FOUND.rounds, FOUND.varied).cost.endswith("NOT PRIVATE no epsilon holds")
    none = Results(FOUND.runs.assign(epsilon=math.nan), FOUND.rounds, FOUND.varied)
    assert none.cost == "NOT PRIVATE: no epsilon holds"


def test_a_plot_has_a_line_for_each_method_over_the_epsilon_spent():
    plain = pd.DataFrame(
        [("plain", 1, 0, 0.9, math.nan), ("unmeasured", 1, 0, math.nan, 1.0)], columns=RUNS.columns
    )
    runs = pd.concat([FOUND.runs, plain], ignore_index=True)
    (axes,) = Results(runs, FOUND.rounds, FOUND.varied).plot().axes
    lines = dict(zip(axes.get_legend_handles_labels()[1], axes.get_legend_handles_labels()[0], strict=True))
    assert set(lines) == {"a", "b", "plain, NOT PRIVATE", "unmeasured, no accuracy"}
    points = lines["b"].lines[0].get_xydata().tolist()
    assert points == [pytest.approx([0.95, 0.63]), pytest.approx([7.95, 0.705])]
    (bars,) = lines["b"].lines[2]
    (low, high), _ = (segment[:, 1] for segment in bars.get_segments())
    assert (low, high) == pytest.approx((0.60, 0.66))
    assert list(lines["plain, NOT PRIVATE"].get_ydata()) == [0.9, 0.9]
    assert axes.get_xlabel() == "epsilon"


@pytest.mark.parametrize("varied", [("method", "budget"), ("budget", "method")])
def test_runs_without_privacy_have_no_budget_and_are_compared_at_each(varied):
    plain = pd.DataFrame([("plain", math.nan, seed, 0.9, math.nan) for seed in (0, 1)], columns=RUNS.columns)
    found = Results(pd.concat([FOUND.runs, plain], ignore_index=True), FOUND.rounds, varied)
    table = found.difference("plain", "a", by="method")
    assert table["mean"].tolist() == pytest.approx([0.9 - 0.51, 0.9 - 0.72])
    assert list(table.index) == [1, 8]
    open_ = found.runs[found.runs["epsilon"].isna()]
    both = pd.concat([open_, open_.assign(method="other", accuracy=0.8)])
    alone = Results(both, found.rounds, varied).difference("plain", "other", by="method")
    assert alone.loc[math.inf, "mean"] == pytest.approx(0.1)
    (axes,) = found.plot(by="budget").axes
    assert axes.get_legend_handles_labels()[1] == ["NOT PRIVATE", "1.0", "8.0"]


def run(tmp_path, *charges, private=True, total=0.1, seed=0):
    clients = {
        str(number): {"charges": [one.to_dict() for one in entries], "epsilon": total}
        for number, entries in enumerate(charges)
    }
    config = RunConfig(privacy="on" if private else "off", seed=seed)
    return Result(tmp_path, config, {"clients": clients, "delta": 1e-5 if private else None})


def test_all_runs_together_cost_what_the_client_has_paid_that_they_cost_most(tmp_path):
    little, much = Entry(0.1, 5.0, 10), Entry(0.1, 2.0, 10)
    runs = [
        run(tmp_path, (little,), (much,)),
        run(tmp_path, (little,), private=False),
        run(tmp_path, (much,), (little, little)),
    ]
    first, second, third = composed(runs)
    assert first == second == compute_epsilon([much], 1e-5)
    assert third == compute_epsilon([much, little, little], 1e-5), "one split: a record is at one client"
    assert math.isnan(next(composed(runs[1:2])))


def test_a_record_may_be_at_any_client_of_another_split(tmp_path):
    little, much = Entry(0.1, 5.0, 10), Entry(0.1, 2.0, 10)
    runs = [run(tmp_path, (little,), (much,)), run(tmp_path, (much,), (little,), seed=1)]
    assert list(composed(runs))[-1] == compute_epsilon([much, much], 1e-5)


def test_the_client_that_costs_most_in_each_run_may_not_cost_most_in_all(tmp_path):
    often, seldom = Entry(0.18, 1.699, 12), Entry(0.31, 2.197, 8)
    assert compute_epsilon([often], 1e-5) > compute_epsilon([seldom], 1e-5)
    *_, together = composed([run(tmp_path, (often,), (seldom,))] * 4)
    assert together == compute_epsilon([seldom] * 4, 1e-5) > compute_epsilon([often] * 4, 1e-5)


def test_together_is_no_less_than_a_ledger_shows_nor_than_the_runs_whose_accounts_were_retired(tmp_path):
    one = Entry(0.1, 2.0, 10)
    runs = [run(tmp_path, (one,), total=5.0), run(tmp_path, (one,), total=1.0), run(tmp_path, (one,))]
    assert list(together_of(runs[:1])) == [5.0]
    assert list(together_of(runs[1:]))[-1] == compute_epsilon([one, one], 1e-5) > 1.0
    assert list(together_of([run(tmp_path, (one,), total=None)])) == [math.inf]
    assert math.isnan(next(together_of([run(tmp_path, (one,), private=False)])))
