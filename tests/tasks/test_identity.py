"""Two sites mean the same task if what is computed is the same; where their data lie is their own."""

import importlib
import sys

import pytest
from torch import nn

from fl_dp.audit.one_run import GivenTask
from fl_dp.config.task import TaskSettings
from fl_dp.errors import TaskError
from fl_dp.form import Form
from fl_dp.models.build import build_model
from fl_dp.tasks.identity import identity, is_our_code
from fl_dp.tasks.load import _task as task_of_cache
from fl_dp.tasks.load import task_of
from fl_dp.training.losses import Loss


def of(path):
    return identity(task_of(TaskSettings(task=str(path))))


@pytest.fixture
def original(write, task_text):
    return of(write(task_text, "original"))


@pytest.mark.parametrize(
    "changed",
    [
        lambda text: text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace(":\n", ":   \n"),
        lambda text: "\ufeff" + text,
        lambda text: text.replace("torch.arange(60.0).view(10, 6)", "read('/data/ours.csv')"),
        lambda text: text.replace("torch.zeros(4, 6)", "read('/data/test.csv')"),
        lambda text: text.replace("    def train_data", "    @cached\n    def train_data"),
        lambda text: text.replace("\n\n", "\n\n\n"),
    ],
)
def test_where_the_data_lie_and_how_lines_end_does_not_count(changed, original, write, task_text):
    text = changed(task_text)
    text = text.replace("class Mine", "cached = lambda f: f\n\nclass Mine") if "@cached" in text else text
    path = write("", "other")
    path.write_bytes(text.encode())
    assert (of(path) == original) is ("@cached" not in text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("nn.Linear(6, 4)", "nn.Linear(6, 5)"),
        ("return F.cross_entropy(", "return 2 * F.cross_entropy("),
        ('("low", "high")', '("high", "low")'),
        ("class Mine", "class Ours"),
    ],
)
def test_what_is_computed_counts(old, new, original, write, task_text):
    assert old in task_text
    assert of(write(task_text.replace(old, new), "other")) != original


@pytest.mark.parametrize("line", ["import helper", "from helper import K", "import helper.more"])
@pytest.mark.parametrize("elsewhere", ["helper.py", "helper/__init__.py"])
def test_a_module_of_the_working_directory_in_the_place_of_the_one_beside(
    line, elsewhere, tmp_path, monkeypatch, write
):
    """Else two sites would agree on text that neither runs."""
    other = tmp_path / "work" / elsewhere
    other.parent.mkdir(parents=True)
    other.write_text("K = 1")
    text = file("from helper import K" if "more" not in line else "")
    path = write(
        text.replace("def losses", f"def late(self):\n        {line}\n\n    def losses"), helper="K = 2"
    )
    monkeypatch.chdir(other.parents[elsewhere.count("/")])
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    with pytest.raises(TaskError, match=rf"helper.py: `import helper` takes {other} instead.*another name"):
        of(path)
    monkeypatch.setattr(sys, "path", [str(path.parent), *sys.path])
    unload("helper")
    assert of(path)


def test_a_package_of_that_name_in_the_place_of_a_folder_of_files(tmp_path, monkeypatch, write):
    """A folder without __init__.py is a package, too, but the last that Python looks for."""
    path = write(file("from helper.net import K"))
    (path.parent / "helper").mkdir()
    (path.parent / "helper" / "net.py").write_text("K = 1")
    assert of(path)
    unload("helper")
    (tmp_path / "elsewhere" / "helper").mkdir(parents=True)
    for name in ("__init__.py", "net.py"):
        (tmp_path / "elsewhere" / "helper" / name).write_text("K = 2")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "elsewhere")])
    task_of_cache.cache_clear()
    with pytest.raises(TaskError, match=r"/helper: `import helper` takes .*elsewhere/helper/__init__"):
        of(path)


def unload(*names):
    for module in [one for one in sys.modules if one.split(".")[0] in names]:
        del sys.modules[module]
    importlib.invalidate_caches()


BODY = """
import torch
from torch import nn
from fl_dp import Task
HEAD
class Mine(Task):
    def losses(self, model, batch):
        return FACTOR * model(batch[0])
    def train_data(self, DEFAULT=0):
        return torch.zeros(4, 6), torch.zeros(4)
"""


def file(head="", factor="K", default="_"):
    return BODY.replace("HEAD", head).replace("FACTOR", factor).replace("DEFAULT", default)


@pytest.mark.parametrize(
    ("task", "files"),
    [
        # U+2028 and form feeds end no line in Python: what lies before train_data must not be left out
        ("my_task.py", {"my_task.py": file("# \u2028", "VALUE")}),
        ("my_task.py", {"my_task.py": file("\x0c", "VALUE")}),
        # only the task's own data count nowhere
        (
            "my_task.py",
            {"my_task.py": file("class H:\n    def train_data(self):\n        return VALUE", "H()")},
        ),
        ("my_task.py", {"my_task.py": file(default="_=globals().__setitem__('K', VALUE), u")}),
        # what is imported from the same folder, however far
        ("my_task.py", {"my_task.py": file("from layers import K"), "layers.py": "K = VALUE"}),
        (
            "my_task.py",
            {
                "my_task.py": file("import pkg.more\nK = pkg.more.K"),
                "pkg/__init__.py": "",
                "pkg/more.py": "from .deep import K",
                "pkg/deep.py": "K = VALUE",
            },
        ),
        (
            "my_task.py",
            {
                "my_task.py": file("import pkg.more\nK = pkg.more.rest.K"),
                "pkg/__init__.py": "",
                "pkg/more.py": "from . import rest",
                "pkg/rest.py": "K = VALUE",
            },
        ),
        # a package's files, by all of their names
        ("pkg.task:Mine", {"pkg/task.py": file("from pkg.more import K"), "pkg/more.py": "K = VALUE"}),
        ("pkg.task:Mine", {"pkg/task.py": file("from pkg import K"), "pkg/__init__.py": "K = VALUE"}),
        ("pkg.task:Mine", {"pkg/task.py": file("from . import K"), "pkg/__init__.py": "K = VALUE"}),
        ("pkg.sub.task:Mine", {"pkg/sub/task.py": file("from ..more import K"), "pkg/more.py": "K = VALUE"}),
        (
            "my_task.py",
            {"my_task.py": file("import pkg.a\nK = pkg.K"), "pkg/__init__.py": "K = VALUE", "pkg/a.py": ""},
        ),
        (
            "my_task.py",
            {
                "my_task.py": file("from pkg import *\nK = more.K"),
                "pkg/more.py": "K = VALUE",
                "pkg/__init__.py": "__all__ = ['more']",
            },
        ),
        # what the named file does to a class of another file
        (
            "my_task.py:Mine",
            {"my_task.py": "from helper import Mine\nMine.K = VALUE", "helper.py": file("", "self.K")},
        ),
        # a link in the folder is a file of the folder
        ("my_task.py", {"my_task.py": file("from helper import K"), "../helper.py": "K = VALUE"}),
    ],
)
def test_no_part_of_what_is_computed_is_overlooked(task, files, tmp_path, monkeypatch):
    found = []
    for value in ("1", "2", "1"):
        unload("pkg", "helper", "layers")
        folder = tmp_path / f"{len(found)}" / "site"
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text.replace("VALUE", value), encoding="utf-8")
        if "../helper.py" in files:
            (folder / "helper.py").symlink_to(folder.parent / "helper.py")
        with monkeypatch.context() as patch:
            patch.setattr(sys, "path", [str(folder), *sys.path])
            found.append(of(task if ".task:" in task else folder / task))
        task_of_cache.cache_clear()
    unload("pkg", "helper", "layers")
    assert found[0] == found[2] != found[1]


class Foreign(nn.Linear):
    """Of another package."""


def test_our_code_is_that_of_fl_dp_and_of_pytorch_alone(monkeypatch):
    """A model that an audit was given, another package's architecture, and its loss are not."""
    task, ours = task_of(TaskSettings()), build_model("norm-linear", Form((1, 4, 4), 2), seed=0)
    assert is_our_code(task, ours)
    assert not is_our_code(task, nn.Sequential(ours, Foreign(2, 2)))
    assert not is_our_code(GivenTask(ours, TaskSettings()), ours)
    loss = Loss(per_example=lambda outputs, targets: outputs[:, 0], targets=("class",), metrics=())
    monkeypatch.setattr("fl_dp.tasks.identity.loss_of", lambda name: loss)
    assert not is_our_code(task, ours)
