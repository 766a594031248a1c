"""The example of movie reviews, on reviews that are made up: the real ones are not shipped."""

import runpy
from pathlib import Path

import pytest
import torch

from fl_dp.config.run import RunConfig
from fl_dp.tasks.load import new_model, task_of
from fl_dp.tasks.records import records_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "reviews"


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    (tmp_path / "from").mkdir()
    for kind, word in (("pos", "wonderful"), ("neg", "dull")):
        lines = "".join(f"a {word} caf\xe9 film , number {k} . \n" for k in range(40))
        (tmp_path / "from" / f"rt-polarity.{kind}").write_text(lines, encoding="latin-1")
    prepare = runpy.run_path(str(EXAMPLE / "prepare.py"))["main"]
    prepare(tmp_path / "from", tmp_path / "to")
    return tmp_path / "to"


def config(name: str, data: Path) -> RunConfig:
    found = RunConfig.from_toml(EXAMPLE / f"{name}.toml")
    flat = found.to_flat() | {"data": f"text:{data}"}
    if found.task:
        flat["task"] = str(EXAMPLE / Path(found.task).name)
    return RunConfig.from_flat(flat)


def test_every_review_is_in_one_split(prepared: Path) -> None:
    lines = [line for file in sorted(prepared.rglob("*.txt")) for line in file.read_text().splitlines()]
    assert len(lines) == len(set(lines)) == 80
    assert all("caf\xe9" in line for line in lines)
    assert 4 <= sum(len(file.read_text().splitlines()) for file in (prepared / "test").iterdir()) <= 30


def test_a_bag_leaves_out_common_words_and_knows_the_same_records(prepared: Path) -> None:
    settings = config("bag", prepared)
    task = task_of(settings)
    data = records_of(task, "train")
    assert data is not None
    assert set((data.x > 0).sum(1).tolist()) <= {4, 5}  # of 8; 4 where two share a token
    plain = records_of(task_of(RunConfig.from_flat(settings.to_flat() | {"task": ""})), "train")
    assert plain is not None
    assert data.fingerprint() == plain.fingerprint()
    model = new_model(task)
    outputs = model(data.x)
    assert outputs.shape == (len(data), 2)
    moved = torch.cat([data.x[:, -30:], data.x[:, :-30]], dim=1)
    assert torch.allclose(outputs, model(moved))  # a bag has no order, and padding is nothing


def test_counts_are_how_often_each_word_stands_there(prepared: Path) -> None:
    task = task_of(config("counts", prepared))
    data = records_of(task, "train")
    assert data is not None
    assert data.form.input_shape == (16384,)
    assert set(data.x.sum(1).tolist()) == {8.0}
    assert data.x[:, 0].sum() == 0
    assert new_model(task)(data.x).shape == (len(data), 2)
