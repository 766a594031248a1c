"""A task's file is looked for where its name was written."""

from fl_dp.config.run import RunConfig
from fl_dp.launch.request import read_config, request_of


def test_code_in_a_config_stands_beside_it_and_what_is_given_in_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    file = tmp_path / "run.toml"
    for key, value, becomes in (
        ("task", "my_task.py:Ours", f"{tmp_path}/my_task.py:Ours"),
        ("model", "nets.py:small", f"{tmp_path}/nets.py:small"),
        ("strategy", "parts.py:mine", f"{tmp_path}/parts.py:mine"),
        ("model", "torchvision:resnet18", "torchvision:resnet18"),
    ):
        file.write_text(f'{key} = "{value}"\n')
        assert getattr(read_config(file), key) == becomes
    monkeypatch.chdir(tmp_path)
    assert request_of(RunConfig(), {"task": "my_task.py"}).config.task == f"{tmp_path}/my_task.py"
    assert request_of(RunConfig(), {"task": "package.module:Ours"}).config.task == "package.module:Ours"
