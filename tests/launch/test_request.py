"""A task's file is looked for where its name was written."""

import pytest

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.launch.request import read_config, request_of


def test_a_task_in_a_config_stands_beside_it(tmp_path, monkeypatch):
    (tmp_path / "run.toml").write_text('task = "my_task.py:Ours"\n')
    monkeypatch.chdir("/")
    assert read_config(tmp_path / "run.toml").task == f"{tmp_path}/my_task.py:Ours"
    (tmp_path / "run.toml").write_text('model = "nets.py:small"\nstrategy = "parts.py:mine"\n')
    config = read_config(tmp_path / "run.toml")
    assert (config.model, config.strategy) == (f"{tmp_path}/nets.py:small", f"{tmp_path}/parts.py:mine")
    (tmp_path / "run.toml").write_text('model = "torchvision:resnet18"\n')
    assert read_config(tmp_path / "run.toml").model == "torchvision:resnet18"


def test_a_task_that_is_given_stands_in_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert request_of(RunConfig(), {"task": "my_task.py"}).config.task == f"{tmp_path}/my_task.py"
    assert request_of(RunConfig(), {"task": "package.module:Ours"}).config.task == "package.module:Ours"


def test_only_values_that_nobody_gave_are_lowered():
    base = RunConfig(clients=8, min_clients=8, fit_clients=8)
    request = request_of(base, {"clients": 3})
    assert (request.config.min_clients, request.config.fit_clients) == (3, 3)
    assert request.notes[0] == "min-clients = 3 (8 by config or default)"
    nothing_written = request_of(RunConfig(), {"clients": 3})
    assert "min-clients = 3 (2 by config or default)" in nothing_written.notes
    with pytest.raises(ConfigError, match="min-clients = 4: expected at most clients = 3"):
        request_of(base, {"clients": 3, "min-clients": 4})
