"""The command line, up to the point where a federation would be started."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import typer

from fl_dp.cli import main
from fl_dp.cli.common import run_command
from fl_dp.cli.main import SECTIONS, app
from fl_dp.config.run import RunConfig
from fl_dp.errors import DataError, ExitCode, FlDpError, LaunchError, ModelError, TaskError
from fl_dp.launch import launcher
from fl_dp.launch.request import RunRequest


@pytest.fixture(autouse=True)
def launched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[RunConfig, dict[str, Any]]]:
    """Runs that would have been launched; the working directory is empty."""
    seen: list[tuple[RunConfig, dict[str, Any]]] = []

    def launch(request: RunRequest, **options: Any) -> ExitCode:
        del options["tell"]
        seen.append((request.config, options))
        return ExitCode.BUDGET_EXHAUSTED

    monkeypatch.setattr(launcher, "launch", launch)
    monkeypatch.chdir(tmp_path)
    return seen


def test_arguments_and_options_reach_the_launch(launched, tmp_path):
    out = tmp_path / "x"
    words = f"--simulate --out {out} --seed 7 5 2 --set optimizer-settings=momentum=0.9 --set weights=uniform"
    assert run_command(app, ["run", *words.split()]) == 3
    (config, options) = launched[0]
    assert (config.clients, config.min_clients, config.seed) == (5, 2, 7)
    assert (config.momentum, config.weights) == (0.9, "uniform")
    assert (options.pop("engine"), options.pop("out")) == ("ray", out)
    assert not any(options.values())
    run_command(app, ["run", "--one-run-ledger"])
    assert (launched[1][1]["engine"], launched[1][1]["one_run_ledger"]) == (None, True)


@pytest.mark.parametrize(
    ("words", "culprit"),
    [
        (["2", "2", "2", "3", "60", "64"], "VBATCHSIZE"),
        (["--simulat"], "--simulat"),
        (["--seed", "x"], "--seed"),
        (["--config"], "--config"),
        (["--ray-address", "auto"], "--ray-address auto: works only in a simulation"),
    ],
)
def test_a_bad_argument_is_one_line_that_names_it_and_starts_nothing(
    words, culprit, launched, tmp_path, capsys
):
    assert run_command(app, ["run", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert culprit in error
    assert error.count("\n") == 1
    assert launched == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "culprit"),
    [
        (["3"], "Arguments"),
        (["--set", "rounds=9"], "--set"),
        (["--config", "x.toml"], "--config"),
        (["--seed", "1"], "--seed"),
        (["--out", "y"], "--out"),
        (["--ledger", "y"], "--ledger"),
        (["--simulate"], "--simulate"),
    ],
)
def test_nothing_may_change_in_a_run_that_is_resumed(words, culprit, capsys):
    assert run_command(app, ["run", "--resume", "x", *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {culprit}: a resumed run keeps its settings; leave it out. ")
    assert said.endswith("round-timeout, track) may be changed, in x/config.toml.\n")


def test_a_resumed_run_is_known_by_its_folder(monkeypatch):
    seen = []

    def resume(folder, *, ray_address, tell):
        seen.append((folder, ray_address))
        return ExitCode.TRAINED

    monkeypatch.setattr(launcher, "resume", resume)
    assert run_command(app, ["run", "--resume", "runs/x"]) == 0
    assert run_command(app, ["run", "--resume", "runs/x", "--ray-address", "auto"]) == 0
    assert seen == [(Path("runs/x"), None), (Path("runs/x"), "auto")]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DataError("x.npz: truncated"), 2),
        (TaskError("task: raised"), 2),
        (ModelError("model: does not fit"), 2),
        (LaunchError("the server stopped"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_how_a_command_ends(error, code, capsys):
    command = typer.Typer()

    @command.command()
    def fail() -> None:
        raise error

    assert run_command(command, []) == code
    said = capsys.readouterr().err
    assert said == f"error: {error}\n" if isinstance(error, FlDpError) else said.startswith("interrupted")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("server --port 9092", "No such option '--port'. Did you mean --address?"),
        ("server --lr 1", "No such option '--lr'. Write --set learning-rate=VALUE."),
        ("server --epsilon 3", "No such option '--epsilon'. Write --set epsilon=VALUE."),
        ("client --port 9092", "No such option '--port'. Did you mean --server?"),
        ("client --lr 1", "No such option '--lr'. See fl-dp client --help."),
        ("approve --folder a", "No such option '--folder'. See fl-dp approve --help."),
        ("export a --format onnx", "No such option '--format'. Did you mean --to?"),
        ("server --kitt a", "No such option '--kitt'. Did you mean --kit?"),
        ("report", "Missing argument 'DIR': "),
        ("ledger reset", "No such command 'reset'. See fl-dp ledger --help."),
        ("simulate", "No such command 'simulate'. Did you mean fl-dp run --simulate?"),
    ],
)
def test_a_word_that_no_command_knows_is_told_with_what_to_type(words, expected, capsys):
    assert run_command(app, words.split(), "fl-dp") == 2
    assert f"error: {expected}" in capsys.readouterr().err


def test_every_help_is_whole(capsys):
    """A line for each command, the help of each argument, and no backslash that typer leaves."""
    group = typer.main.get_command(app)
    context = click.Context(group)
    assert run_command(app, []) == 0
    listed = capsys.readouterr().out.partition("Train:")[2]
    assert run_command(app, ["--version"]) == 0
    assert capsys.readouterr().out.startswith("fl-dp ")
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        said = command.get_help(click.Context(command))
        assert "\\" not in said, name
        assert said.count("rguments:") <= 1, name
        assert f"  {name}  " in listed
    verify = group.get_command(context, "verify")
    assert "DIR  The run's folder.  [required]" in verify.get_help(click.Context(verify))


@pytest.mark.parametrize(("name", "row"), [row for rows in SECTIONS.values() for row in rows.items()])
def test_a_line_of_the_list_is_the_first_sentence_of_the_commands_own_help(name, row):
    command = typer.main.get_command(app).commands[name]
    assert (command.name, command.get_short_help_str(200)) == (name, row.help)


def test_only_the_command_that_is_called_is_imported_and_none_for_the_list():
    code = (
        "import sys\nfrom fl_dp.cli.common import run_command\nfrom fl_dp.cli.main import app\n"
        "for words in ([], ['--help'], ['runn'], ['keys', '--help']):\n    run_command(app, words)\n"
        "    print(sorted(one for one in sys.modules if one.startswith('fl_dp.cli.')), file=sys.stderr)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr
    base = "['fl_dp.cli.common', 'fl_dp.cli.main']"
    *lists, keys = [line for line in said.splitlines() if not line.startswith("error")]
    assert (lists, keys) == ([base] * 3, "['fl_dp.cli.common', 'fl_dp.cli.keys', 'fl_dp.cli.main']")
    assert "No such command 'runn'. Did you mean 'run'?" in said


def test_a_command_whose_import_fails_is_not_told_as_unknown(monkeypatch):
    def fail(module):
        raise KeyError("HOME")

    monkeypatch.setattr(main, "import_module", fail)
    monkeypatch.setattr(main, "_imported", main._imported.__wrapped__)
    with pytest.raises(KeyError, match="HOME"):
        run_command(app, ["keys"])
    assert run_command(app, ["kezs"]) == ExitCode.USAGE


def test_no_command_imports_pytorch_flower_ray_or_pandas_before_it_is_asked_for_more():
    places = {row.place.partition(":")[0] for rows in SECTIONS.values() for row in rows.values()}
    code = f"import sys, {', '.join(sorted(places))}\n"
    code += "print(*{'torch', 'flwr', 'ray', 'pandas', 'scipy', 'matplotlib'} & set(sys.modules))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == []


def test_the_console_script_and_the_module_are_the_same_command():
    script = Path(sys.executable).parent / "fl-dp"
    for command in ([str(script), "run", "0"], [sys.executable, "-m", "fl_dp", "run", "0"]):
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 2
        assert result.stderr == "error: NBCLIENTS (clients) = 0: expected an integer from 1 to 1000000.\n"


def test_the_first_line_does_not_wait_for_torch_or_flower(tmp_path):
    code = (
        "import sys\nfrom fl_dp.cli import main\nfrom fl_dp.launch import launcher\n"
        "def stop(config, **more):\n"
        "    print({'torch', 'flwr', 'ray'} & set(sys.modules), flush=True)\n    raise KeyboardInterrupt\n"
        "launcher.check_first = stop\nsys.argv = ['fl-dp', 'run']\nmain.main()"
    )
    state = os.environ | {"XDG_STATE_HOME": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=state
    )
    assert ended.stdout == "set()\n"
    assert ended.stderr.splitlines()[0] == "checking the settings; importing PyTorch"
    assert ended.returncode == 130
