"""Two sites mean the same task if what is computed is the same; where their data lie is their own."""

import pytest

from fl_dp.config.task import TaskSettings
from fl_dp.tasks.identity import identity
from fl_dp.tasks.load import task_of
from fl_dp.tasks.task import Task


def of(path):
    return identity(task_of(TaskSettings(task=str(path))))


@pytest.fixture
def original(write, task_text):
    return of(write(task_text, "original"))


def test_what_is_built_in_has_none():
    assert identity(Task(TaskSettings())) == ""


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
        (
            "F.cross_entropy(model(inputs), targets, reduction",
            "2 * F.cross_entropy(model(inputs), targets, reduction",
        ),
        ('("low", "high")', '("high", "low")'),
        ("class Mine", "class Ours"),
    ],
)
def test_what_is_computed_counts(old, new, original, write, task_text):
    assert old in task_text
    assert of(write(task_text.replace(old, new), "other")) != original


def test_what_is_imported_from_the_same_folder_counts(write, task_text):
    text = "from layers import width\nimport parts.more\n" + task_text
    (folder := write(text, "a", layers="width = 4").parent / "parts").mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "more.py").write_text("from . import rest\nfrom .deep import x\n")
    (folder / "rest.py").write_text("size = 1")
    (folder / "deep.py").write_text("x = 1")
    first = of(folder.parent / "my_task.py")
    found = {first}
    for name, other in (
        ("layers.py", "width = 5"),
        ("parts/rest.py", "size = 2"),
        ("parts/deep.py", "x = 2"),
    ):
        twin = write(text, f"twin {name.replace('/', ' ')}", layers="width = 4").parent
        (twin / "parts").mkdir()
        for file in ("__init__.py", "more.py", "rest.py", "deep.py"):
            (twin / "parts" / file).write_text((folder / file).read_text())
        (twin / name).write_text(other)
        found.add(_of_sources(twin / "my_task.py"))
    same = write(text, "same", layers="width = 4").parent
    (same / "parts").mkdir()
    for file in ("__init__.py", "more.py", "rest.py", "deep.py"):
        (same / "parts" / file).write_text((folder / file).read_text())
    assert len(found) == 4
    assert _of_sources(same / "my_task.py") == first


def _of_sources(path):
    """Its modules have the names of the first ones, which are loaded in this process: only files are read."""
    from fl_dp.tasks import identity as module

    class Named(Task):
        pass

    Named.__name__ = "Mine"
    task = Named(TaskSettings())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.inspect, "getfile", lambda kind: str(path))
        return identity(task)
