"""A folder of one's own trains as it is written."""

import re
import shlex

from fl_dp.cli.common import run_command
from fl_dp.cli.main import app
from fl_dp.launch.preflight import check_choices, check_server, split
from fl_dp.launch.request import read_config


def test_what_it_writes_passes_every_check_from_any_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_command(app, ["new", "a/mine"]) == 0
    assert "cd a/mine && fl-dp run --config run.toml --simulate" in capsys.readouterr().out
    monkeypatch.chdir("/")
    config = read_config(tmp_path / "a/mine/run.toml")
    check_choices(config)
    check_server(config)
    assert split(config)[1] == ()


def test_its_readme_names_options_that_there_are(tmp_path, capsys):
    assert run_command(app, ["new", str(tmp_path / "mine")]) == 0
    text = (tmp_path / "mine" / "README.md").read_text()
    commands = [shlex.split(line) for line in re.findall(r"^    fl-dp (.*)$", text, flags=re.MULTILINE)]
    assert {words[0] for words in commands} == {"run", "server", "client", "export"}
    for words in commands:
        capsys.readouterr()
        assert run_command(app, [words[0], "--help"]) == 0
        help_text = capsys.readouterr().out
        assert all(word in help_text for word in words if word.startswith("--"))


def test_a_folder_with_something_in_it_is_left_alone_and_an_empty_one_is_taken(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert run_command(app, ["new", str(tmp_path / "empty")]) == 0
    assert {file.name for file in (tmp_path / "empty").iterdir()} == {"my_task.py", "run.toml", "README.md"}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    for name in ("mine", "mine/thesis.txt"):
        assert run_command(app, ["new", str(tmp_path / name)]) == 2
        assert "is not empty; name a new folder" in capsys.readouterr().err
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
