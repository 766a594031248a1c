from pathlib import Path
from typing import Any

import pytest
from run_records import client, summary

from fl_dp.errors import ConfigError, ExitCode, LaunchError
from fl_dp.launch.outcome import conclude, failure_of
from fl_dp.reporting.reports import RUN_EPSILON_SPENT
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.run_results import RunResults

GOOD, BAD = None, "the server raised"


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def write(folder: RunFolder, status: str, reason: str = "", private: bool = True, **more: Any) -> None:
    plain: dict[str, Any] = {"rounds": 2, "federation": None, "accuracy": None, "metrics": {}}
    given = {**plain, "status": status, "reason": reason, "private": private, **more}
    RunResults(folder.path, resumed=True).write_summary(summary(**given))


def test_trained_as_asked(folder, said, capsys):
    write(folder, "completed")
    assert conclude(GOOD, folder, said.append) == ExitCode.TRAINED
    assert said == [f"results in {folder.path}", f"report in {folder.report}"]
    assert "accountant" in folder.report.read_text()
    assert "Privacy spent" in capsys.readouterr().out


def test_beside_the_result_stands_the_best_constant_prediction_in_the_same_metric(folder, said):
    constant = {"loss": 2.3, "auroc": 0.5, "accuracy": 0.125}
    write(folder, "completed", metrics={"accuracy": 0.9, "auroc": 0.95}, constant=constant)
    conclude(GOOD, folder, said.append)
    assert said[:2] == [
        "for comparison, the best constant prediction: accuracy 0.125, loss 2.30",
        f"results in {folder.path}",
    ]


@pytest.mark.parametrize(
    ("accuracy", "private", "drowned"),
    [(0.125, True, True), (0.126, True, False), (None, True, False), (0.125, False, False)],
)
def test_a_model_that_noise_makes_no_better_than_a_constant_is_named(
    folder, said, accuracy, private, drowned
):
    constant = {"accuracy": 0.125, "loss": 2.3}
    write(folder, "completed", private=private, accuracy=accuracy, constant=constant)
    conclude(GOOD, folder, said.append)
    assert any("no better than that" in words for words in said) == drowned


def test_spent_budgets_are_a_normal_end_and_said(folder, said):
    write(folder, "budget-exhausted")
    assert conclude(GOOD, folder, said.append) == ExitCode.BUDGET_EXHAUSTED == 3
    assert "budgets are spent (after round 2)" in said[-1]
    write(folder, "budget-exhausted", RUN_EPSILON_SPENT)
    conclude(GOOD, folder, said.append)
    assert "the run's epsilon is spent (after round 2)" in said[-1]
    fresh = client(0.0, steps=0, charges=(), status="idle", reason="No noise is enough.")
    write(folder, "budget-exhausted", rounds=0, clients={"0": fresh, "1": fresh})  # nothing was ever spent
    assert conclude(GOOD, folder, said.append) == ExitCode.BUDGET_EXHAUSTED
    assert (
        said[-1]
        == "nothing was trained: the clients' privacy budgets have no room for a step: No noise is enough."
    )


@pytest.mark.parametrize("text", ["{", "[]", '{"status": 3}', '{"status": "completed"}'])
def test_a_damaged_summary_is_named(folder, text):
    folder.summary.write_text(text)
    with pytest.raises(ConfigError, match=r"summary\.json: is damaged"):
        conclude(GOOD, folder, print)


def test_a_failed_run_gives_cause_and_log_and_has_a_page_too(folder, said):
    write(folder, "failed", "no client trained: all declined")
    with pytest.raises(LaunchError, match=r"no client trained: all declined\. Log: .*server\.log"):
        conclude(GOOD, folder, said.append)
    assert said == [f"report in {folder.report}"]
    assert "all declined" in folder.report.read_text()


def test_a_server_that_fails_gives_its_words_and_the_end_of_the_log_also_after_its_summary(folder):
    folder.log("server").parent.mkdir()
    folder.log("server").write_text("Traceback\nValueError: x\n")
    with pytest.raises(LaunchError, match=r"(?s)the server raised.*server\.log.*ValueError: x"):
        conclude(BAD, folder, print)
    write(folder, "completed")
    with pytest.raises(LaunchError, match="after its last round: the server raised"):
        conclude(BAD, folder, print)


def test_the_last_lines_of_a_run_without_privacy_say_so(folder, said, capsys):
    write(folder, "completed", private=False)
    assert conclude(GOOD, folder, said.append) == ExitCode.TRAINED
    assert said == [f"NOT PRIVATE: results in {folder.path}", f"NOT PRIVATE: report in {folder.report}"]
    assert capsys.readouterr().out.startswith("NOT PRIVATE: ")


def test_what_the_server_raises_is_logged_and_becomes_its_end_and_what_the_launch_raises_goes_on(caplog):
    assert failure_of(lambda: None) is None
    assert failure_of(lambda: [][0]) == "list index out of range"
    assert "Traceback" in caplog.text

    def stopped():
        raise LaunchError("Every client has stopped")

    with pytest.raises(LaunchError, match="Every client"):
        failure_of(stopped)


def test_who_asks_for_silence_gets_no_page_and_a_run_without_its_page_is_a_run(folder, said):
    write(folder, "completed")
    assert conclude(GOOD, folder, said.append, quiet=True) == ExitCode.TRAINED
    assert said == [f"results in {folder.path}"]
    assert not folder.report.exists()
    folder.report.mkdir()  # where a file should go
    assert conclude(GOOD, folder, said.append) == ExitCode.TRAINED
    assert said[2].startswith("no report was written: ")
    assert said[2].endswith(f"Then run: fl-dp report {folder.path}")


def test_a_cause_at_the_clients_is_told_with_their_logs(folder):
    write(folder, "failed", "3 refused: its ledger cannot be used; its own log says why.")
    folder.log("server").parent.mkdir()
    for name in ("server", "clients"):
        folder.log(name).write_text("a line\n")
    with pytest.raises(LaunchError) as caught:
        conclude(GOOD, folder, print, causes=["l.sqlite: this ledger has these data as a, not b"])
    reason, cause, logs = str(caught.value).splitlines()
    assert reason == "3 refused: its ledger cannot be used; its own log says why."
    assert cause == "At the clients: l.sqlite: this ledger has these data as a, not b"
    assert logs == f"Logs: {folder.log('clients')}, {folder.log('server')}"


def test_an_interrupted_run_says_how_to_go_on(folder):
    write(folder, "failed", "interrupted")
    folder.launch.touch()
    with pytest.raises(LaunchError, match=r"Resume it with: fl-dp run --resume .*\. Log: "):
        conclude(GOOD, folder, print, quiet=True)
