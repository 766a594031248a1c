"""`fl-dp budget` and `fl-dp calibrate`: the numbers of the accountants, and errors that name the option."""

import json

import pytest

from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.cli.common import run_command
from fl_dp.cli.main import app
from fl_dp.records import Entry

PLAN = ["--records", "10000", "--batch-size", "256", "--local-epochs", "5", "--rounds", "40"]
STEPS = 196  # ceil(5 * 10000 / 256)


def _json(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict:
    assert run_command(app, [*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_noise_of_a_plan(capsys):
    answer = _json(["calibrate", *PLAN, "--epsilon", "3"], capsys)
    noise = calibrate_noise(256 / 10000, STEPS, 3.0, 1e-5, rounds=40)
    (phase,) = answer["phases"]
    assert (phase["steps"], phase["noise_multiplier"]) == (STEPS, noise)
    assert 2.98 < answer["epsilon"] <= 3.0
    assert (answer["delta"], answer["budget"], answer["fitting_rounds"]) == (1e-5, 3.0, 40)


def test_a_delta_is_taken_as_it_is_given(capsys):
    words = ["budget", *PLAN, "--noise-multiplier", "3.3", "--accountant", "rdp"]
    answer = _json([*words, "--delta", "1e-6"], capsys)
    assert answer["delta"] == 1e-6
    assert answer["epsilon"] == pytest.approx(
        compute_epsilon([Entry(256 / 10000, 3.3, 40 * STEPS)], 1e-6, "rdp")
    )
    assert _json([*words, "--delta", "auto"], capsys)["delta"] == 1e-5


def test_what_a_plan_costs_on_the_way_and_what_fits_a_budget(capsys):
    def epsilon(steps):
        return compute_epsilon([Entry(256 / 10000, 3.3, steps)], 1e-5, "rdp")

    words = ["budget", *PLAN, "--noise-multiplier", "3.3", "--accountant", "rdp"]
    answer = _json(words, capsys)
    assert [point["round"] for point in answer["course"]] == [8, 16, 24, 32, 40]
    for point in answer["course"]:
        assert point["epsilon"] == pytest.approx(epsilon(STEPS * point["round"]))
    assert answer["budget"] is answer["fitting_rounds"] is None
    answer = _json([*words, "--epsilon", "2"], capsys)
    rounds, steps = answer["fitting_rounds"], answer["fitting_steps"]
    assert 0 < rounds < 40
    assert 0 <= steps < STEPS
    fitting = rounds * STEPS + steps
    assert epsilon(fitting) <= 2.0 < epsilon(fitting + 1)


def test_rounds_that_differ_count_together(capsys):
    then = ["--then", "rounds=10,local-epochs=1,noise-multiplier=4", "--then", "batch-size=512, steps=7"]
    answer = _json(["calibrate", *PLAN, "--epsilon", "3", "--accountant", "rdp", *then], capsys)
    first, second, third = answer["phases"]
    assert (second["rounds"], second["steps"], second["noise_multiplier"]) == (10, 40, 4.0)
    assert (third["rounds"], third["steps"], third["sample_rate"]) == (40, 7, 512 / 10000)
    assert first["noise_multiplier"] == third["noise_multiplier"]
    entries = [
        Entry(phase["sample_rate"], phase["noise_multiplier"], phase["rounds"] * phase["steps"])
        for phase in answer["phases"]
    ]
    assert answer["epsilon"] == pytest.approx(compute_epsilon(entries, 1e-5, "rdp"))
    assert answer["epsilon"] <= 3.0


def test_tables_for_people(capsys):
    assert run_command(app, ["calibrate", *PLAN, "--epsilon", "3"]) == 0
    said = capsys.readouterr().out
    assert "40 256 0.0256 196 3.247" in " ".join(said.split())
    assert "Within the budget of epsilon 3." in said
    assert "vary-mechanism" not in said
    words = ["budget", *PLAN, "--noise-multiplier", "1", "--epsilon", "2", "--then", "noise-multiplier=2"]
    assert run_command(app, [*words, "--accountant", "rdp"]) == 0
    said = capsys.readouterr().out
    assert "A budget of epsilon 2 is spent after 0 of 80 rounds and" in said
    assert "only with vary-mechanism" in said


def test_no_privacy_is_no_number_and_no_noise_an_answer_of_its_own(capsys):
    answer = _json(["budget", "--records", "10", "--batch-size", "5", "--noise-multiplier", "0.001"], capsys)
    assert answer["epsilon"] is None
    assert run_command(app, ["calibrate", *PLAN, "--epsilon", "1e-9", "--accountant", "rdp"]) == 1
    assert "No noise multiplier up to 8192" in capsys.readouterr().err


CALIBRATE = ["calibrate", *PLAN, "--epsilon", "1"]


@pytest.mark.parametrize(
    ("words", "culprit"),
    [
        (["budget", *PLAN], "noise-multiplier: missing; fl-dp calibrate"),
        (["budget", "--records", "0", "--batch-size", "5", "--noise-multiplier", "1"], "records = 0"),
        (["budget", *PLAN, "--noise-multiplier", "1", "--local-epochs", "0"], "local-epochs = 0.0"),
        (["calibrate", "--records", "9", "--batch-size", "10", "--epsilon", "1"], "batch-size = 9."),
        (["calibrate", *PLAN], "--epsilon"),
        (["calibrate", *PLAN, "--epsilon", "0"], "--epsilon 0"),
        ([*CALIBRATE, "--delta", "0.x"], "--delta 0.x"),
        ([*CALIBRATE, "--accountant", "no-such"], "--accountant = 'no-such': expected"),
        ([*CALIBRATE, "--steps", "3"], "--steps, --local-epochs"),
        ([*CALIBRATE, "--then", "epochs=3"], "--then epochs=3: expected KEY"),
        ([*CALIBRATE, "--then", "rounds=many"], "--then rounds=many: expected an"),
        ([*CALIBRATE, "--then", "steps=1,local-epochs=1"], "not both"),
        ([*CALIBRATE, "--then", "rounds=1000000000"], "at most 1000000 steps"),
    ],
)
def test_a_bad_argument_is_one_line_that_names_it(words, culprit, capsys):
    assert run_command(app, words) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert culprit in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", ["budget", "calibrate"])
def test_help_begins_with_an_example(command, capsys):
    assert run_command(app, [command, "--help"]) == 0
    said = capsys.readouterr().out
    assert f"fl-dp {command} --records 10000 --batch-size 256" in said
    assert "[required]" in said
    assert "\\" not in said
