"""`fl-dp audit`: what it prints, writes and returns."""

import json

import pytest

from fl_dp.audit.one_run import AuditReport
from fl_dp.cli.audit import _line, audit
from fl_dp.cli.common import run_command
from fl_dp.training import step

SMALL = ["--canaries", "800", "--sample-rate", "1", "--steps", "1", "--rounds", "1"]


def test_an_audit_is_a_line_and_exit_0_and_a_broken_step_is_exit_1(capsys, monkeypatch):
    assert run_command(audit, [*SMALL, "--epsilon", "2"]) == 0
    line = capsys.readouterr().out
    assert line.count("\n") == 1
    assert "claimed epsilon 1.9" in line or "claimed epsilon 2.0" in line
    assert line.endswith("passed\n")
    monkeypatch.setattr(step, "add_gaussian_noise", lambda clipped, **_: dict(clipped.grads))
    assert run_command(audit, [*SMALL, "--noise-multiplier", "4"]) == 1
    assert "FAILED" in capsys.readouterr().out


def test_a_claim_is_rounded_up_and_a_lower_bound_down():
    line = _line(AuditReport(1.0001, 0.9999, 0.9999, 1e-5, 100, 10, 9, 1.0, 1.0, 1, "pld"))
    assert "claimed epsilon 1.001 at" in line
    assert "at least 0.999 by f-DP" in line


def test_json_of_several_noise_levels(capsys):
    # so little noise that no luck in guessing finds more than the claim; with 4 it did once in a hundred runs
    levels = ["--noise-multiplier", "1", "--noise-multiplier", "0.8"]
    assert run_command(audit, [*SMALL, *levels, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["passed"] is True
    assert [one["noise_multiplier"] for one in result["audits"]] == [1.0, 0.8]
    assert all(one["found"] < one["claimed"] for one in result["audits"])


def test_a_hostile_server_names_every_bound_and_its_runs(capsys):
    words = ["--hostile", "--sample-rate", "1", "--steps", "1", "--rounds", "1", "--epsilon", "4"]
    assert run_command(audit, [*words, "--canaries", "300", "--runs", "2"]) == 0
    line = capsys.readouterr().out
    for part in (
        "a hostile server found",
        "by f-DP in 2 runs",
        "Mahloujifar",
        "first run alone",
        "300 canaries",
    ):
        assert part in line


def test_a_hostile_server_sees_the_config_s_steps_as_rounds(capsys):
    words = ["--hostile", "--canaries", "300", "--steps", "2", "--rounds", "3", "--epsilon", "4", "--json"]
    assert run_command(audit, words) == 0
    (report,) = json.loads(capsys.readouterr().out)["audits"]
    assert (report["steps"], report["hostile"], report["runs"]) == (6, True, 1)
    assert report["found"] == report["found_one_run"]


@pytest.mark.parametrize(
    ("words", "culprit"),
    [
        (["--canaries", "0"], "canaries=0"),
        (["--steps", "0"], "steps = 0"),
        (["--sample-rate", "2"], "sample-rate = 2"),
        (["--runs", "0"], "runs=0"),
        (["--noise-multiplier", "-1"], "noise-multiplier = -1"),
        (["--noise-multiplier", "1", "--epsilon", "2"], "--epsilon"),
        (["--config", "absent.toml"], "absent.toml"),
    ],
)
def test_bad_arguments_are_named(words, culprit, capsys):
    assert run_command(audit, words) == 2
    assert culprit in capsys.readouterr().err
