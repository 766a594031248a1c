"""A model by the name of a function of the user's own."""

import sys
from pathlib import Path

import pytest
import torch

from fl_dp.config.task import TaskSettings
from fl_dp.errors import ConfigError, TaskError
from fl_dp.form import Form
from fl_dp.models.names import absolute_model, check_name, common_name, is_own_code
from fl_dp.tasks.identity import identity
from fl_dp.tasks.load import new_model, task_of
from fl_dp.tasks.own_code import own_function, own_parts

CODE = """\
from torch import nn

import parts_of_own_code


def make(form):
    return nn.Linear(form.input_shape[0], form.outputs)


def wrong(form):
    raise RuntimeError("a secret")


number = 3
"""


def _file(folder: Path, code: str = CODE) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "parts_of_own_code.py").write_text("width = 3\n", encoding="utf-8")
    (folder / "mine.py").write_text(code, encoding="utf-8")
    return folder / "mine.py"


def _task(model: str):
    task = task_of(TaskSettings(model=model))
    task.form = Form((4,), 2)
    return task


def test_a_function_of_the_form_gives_the_model_and_what_it_raises_is_a_tasks_error(tmp_path: Path) -> None:
    file = _file(tmp_path)
    assert new_model(_task(f"{file}:make"))(torch.zeros(3, 4)).shape == (3, 2)
    with pytest.raises(TaskError, match=r"model\(\) raised"):
        new_model(_task(f"{file}:wrong"))


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    file = _file(tmp_path)
    for name, error, words in (
        (f"{file}:number", ConfigError, "it has no number that can be called"),
        (f"{tmp_path}/none.py:make", ConfigError, r"model = .*no such file"),
        ("no_such_module:make", TaskError, r"model = 'no_such_module:make': cannot be imported"),
    ):
        with pytest.raises(error, match=words):
            own_function(name)


def _of_site(file: Path, function: str) -> str:
    """The identity of a model in a process of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", list(sys.path))
        patch.delitem(sys.modules, "parts_of_own_code", raising=False)
        found = identity(_task(f"{file}:{function}"))
    sys.modules.pop("parts_of_own_code", None)
    return found


def test_sites_compare_the_code_and_not_its_path(tmp_path: Path) -> None:
    one, same, other = (_file(tmp_path / name) for name in ("one", "same", "other"))
    same.write_text(CODE.replace("\n", "\r\n"), encoding="utf-8")
    digests = [_of_site(file, "make") for file in (one, same)]
    (other.parent / "parts_of_own_code.py").write_text("width = 4\n", encoding="utf-8")
    assert digests[0] == digests[1] != ""
    assert _of_site(other, "make") != digests[0]
    assert _of_site(one, "wrong") != digests[0]
    assert identity(task_of(TaskSettings(model="mlp"))) == ""
    assert common_name(f"{one}:make") == common_name("a.module:make") == "make"


def test_a_choice_is_never_taken_for_code_of_the_users_own() -> None:
    assert [is_own_code(name) for name in ("linear", "mlp:7", "timm:resnet18", "hf:a/b")] == [False] * 4
    assert is_own_code("my.module:make")
    assert absolute_model("mine.py:make") == f"{Path('mine.py').absolute()}:make"
    with pytest.raises(ConfigError, match=r"FILE\.py:NAME or package\.module:NAME; did you mean linear"):
        check_name("liner")


def test_a_strategys_parts_are_a_function_of_ones_own(tmp_path: Path) -> None:
    file = _file(tmp_path)
    file.write_text(file.read_text() + "\ndef parts(config, run, shared, on_registered): ...\n")
    assert own_parts(f"{file}:parts").__name__ == "parts"
    for name, error, words in (
        (f"{file}:make", ConfigError, "too many positional arguments; expected"),
        (f"{file}:nothing", ConfigError, r"strategy = '.*:nothing': it has no nothing that can be called"),
        (f"{file}", ConfigError, r"it does not name a function; expected FILE\.py:NAME"),
        ("FedAdam", ConfigError, r"'FedAdam': it does not name .* values of server-optimizer"),
        (f"{tmp_path / 'none.py'}:make", TaskError, r"strategy = .*none.py': no such file"),
    ):
        with pytest.raises(error, match=words):
            own_parts(name)


def test_what_a_strategys_function_raises_is_told_by_the_settings_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from flwr.server.strategy import FedAdam\ndef parts(*given): return FedAdam()\n")
    with pytest.raises(ConfigError, match=r"mine\.py:parts': it raised TypeError: FedAdam.*server-optimizer"):
        own_parts(f"{file}:parts")(1, 2, 3, 4)


def test_code_is_imported_anew_when_what_it_imports_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)  # as for most users
    file, helper = tmp_path / "mine.py", tmp_path / "helper_that_is_edited.py"
    file.write_text("import helper_that_is_edited as helper\n\ndef make(form):\n    return helper.width\n")
    for width in (3, 4, 3):  # of one size, within a second
        helper.write_text(f"width = {width}\n")
        assert own_function(f"{file}:make")(Form((4,), 2)) == width
