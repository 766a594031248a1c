"""What trackers are told: numbers of a round, and settings without places."""

import math

from run_records import record

from fl_dp.config.run import RunConfig
from fl_dp.reporting.tracker import numbers_of, told_settings


def test_the_numbers_of_a_round() -> None:
    found = numbers_of(record(3))
    assert found == {
        "privacy/epsilon": 2.0, "privacy/delta": 1e-5, "privacy/epsilon-largest": 2.0,
        "privacy/epsilon-median": 1.5, "privacy/epsilon-least": 1.0, "privacy/noise-multiplier": 1.1,
        "model/loss": 0.5, "model/accuracy": 0.9, "clients/trained": 2, "clients/declined": 0,
        "clients/failed": 0, "clients/idle": 0, "round/seconds": 4.0, "round/lost": 0.0,
    }  # fmt: skip


def test_what_was_not_measured_or_is_not_finite_is_left_out_and_so_is_an_epsilon_without_privacy() -> None:
    found = numbers_of(record(loss=None, accuracy=math.nan, epsilon=math.inf, metrics={"f1": None}))
    assert not found.keys() & {"model/loss", "model/accuracy", "model/f1", "privacy/epsilon"}
    found = numbers_of(record(private=False, epsilon=5.0))
    assert not [name for name in found if name.startswith(("privacy/epsilon", "privacy/delta"))]


def test_statuses_are_counted_and_a_lost_round_is_marked() -> None:
    last = record(clients=3, lost="too few")
    for name, status in zip("012", ("idle", "failed", "declined"), strict=True):
        last["clients"][name]["status"] = status
    found = numbers_of(last)
    assert [found[f"clients/{name}"] for name in ("trained", "declined", "failed", "idle")] == [0, 1, 1, 1]
    assert found["round/lost"] == 1.0


def test_a_metrics_name_is_one_that_trackers_and_files_take() -> None:
    assert "model/a-b--c" in numbers_of(record(metrics={"a/b:\x1bc": 1.0}))
    found = numbers_of(record(metrics={"..": 1.0, "": 2.0, "x" * 999 + "a": 3.0, "x" * 999 + "b": 4.0}))
    assert found["model/-."] == 1.0
    assert found["model/-"] == 2.0
    assert sorted(value for name, value in found.items() if "xxx" in name) == [3.0, 4.0]
    assert max(map(len, found)) < 140


def test_settings_are_told_without_paths_and_names_of_data() -> None:
    config = RunConfig(
        data="csv:/home/someone/patients.csv", data_name="north", data_root="/secret", out="/secret/run",
        schema="/secret/s.toml", task="/secret/t.py", model="/secret/m.py:Net", start="/secret/w.pt",
        track="mlflow",
    )  # fmt: skip
    told = told_settings(config.to_flat())
    assert told["data"] == "csv"
    assert told["epsilon"] == 3.0
    assert told["noise-multiplier"] == "auto"
    assert "model" not in told
    assert not any("secret" in str(one) or "someone" in str(one) or one == "north" for one in told.values())
    assert told_settings(RunConfig(model="hf:/secret/bert").to_flat())["model"] == "hf"


def test_metrics_whose_names_become_one_are_both_kept_under_names_that_stay() -> None:
    """Whatever is measured of the other in a round."""
    found = numbers_of(record(metrics={"f[a=b]": 1.0, "f[a:b]": 2.0, "f[c]": 3.0}))
    named = {name: value for name, value in found.items() if name.startswith("model/f")}
    assert sorted(named.values()) == [1.0, 2.0, 3.0]
    assert named["model/f-c-"] == 3.0
    later = numbers_of(record(metrics={"f[a=b]": 5.0, "f[a:b]": None, "f[c]": 3.0}))
    assert named.keys() & later.keys() == {"model/f-c-", next(name for name in named if named[name] == 1.0)}
