"""rounds.jsonl and summary.json agree field by field."""

from typing import Any

import pytest
from verify.made_run import MadeRun


def what_differs(run: MadeRun) -> str:
    return " | ".join(f"{one.what} ({one.where})" for one in run.differs().get("rounds", []))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", 0.1), ("accountant", "rdp"), ("steps", 1), ("rounds_left", 9), ("status", "idle"),
        ("reason", "x"), ("arithmetic", "proven"), ("delta", 1e-9), ("budget", 1.0), ("sample_rate", 0.2),
        ("noise_multiplier", 9.0), ("charges", []),
    ],
)  # fmt: skip
def test_every_field_of_a_client_is_compared(name: str, value: Any, made_run: MadeRun) -> None:
    made_run.change_summary(lambda summary: summary["clients"]["north"].update({name: value}))
    assert f"{name} is another one in summary.json (rounds.jsonl, line 3, client north)" in what_differs(
        made_run
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("private", False),
        ("epsilon", 0.1),
        ("delta", 1e-9),
        ("lost_rounds", 1),
        ("accuracy", 0.99),
        ("loss", 0.1),
    ],
)
def test_every_field_of_the_run_is_compared(name: str, value: Any, made_run: MadeRun) -> None:
    made_run.change_summary(lambda summary: summary.update({name: value}))
    assert f"{name} is another one in summary.json (rounds.jsonl, line 3)" in what_differs(made_run)


def test_of_a_model_of_an_earlier_round_the_accuracy_is_another(made_run: MadeRun) -> None:
    made_run.change_summary(lambda summary: summary.update(model="best", model_round=2, accuracy=0.99))
    assert what_differs(made_run) == ""


def test_rounds_that_were_taken_out_as_a_whole(made_run: MadeRun) -> None:
    made_run.files.rounds.write_text("")
    assert "3 rounds in the summary, and none in rounds.jsonl" in what_differs(made_run)
