"""The example of movie reviews, on reviews that are made up: the real ones are not shipped."""

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from fl_dp.config.run import RunConfig
from fl_dp.data.tensor_data import TensorData
from fl_dp.tasks.load import new_model, task_of
from fl_dp.tasks.records import records_of
from fl_dp.tasks.task import Task

EXAMPLE = Path(__file__).parents[2] / "examples" / "reviews"
LEXICON = "awful\t-2.0\nwonderful\t2.7\n"


@pytest.fixture(autouse=True)
def modules_of_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(EXAMPLE)])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "from").mkdir()
    for kind, word in (("pos", "wonderful"), ("neg", "boring")):
        lines = "".join(f"a {word} caf\xe9 , not number {k} . \n" for k in range(200))
        (tmp_path / "from" / f"rt-polarity.{kind}").write_text(lines, encoding="latin-1")
    return tmp_path / "from"


@pytest.fixture
def prepared(source: Path, tmp_path: Path) -> Path:
    prepare = runpy.run_path(str(EXAMPLE / "prepare.py"))["main"]
    prepare(source, tmp_path / "to")
    (tmp_path / "to" / "lexicon.txt").write_text(LEXICON, encoding="utf-8")
    return tmp_path / "to"


def config(name: str, data: Path, **more: Any) -> RunConfig:
    flat = RunConfig.from_toml(EXAMPLE / f"{name}.toml").to_flat()
    return RunConfig.from_flat(flat | {"data": f"text:{data}", "task": str(EXAMPLE / flat["task"])} | more)


def task_and_data(name: str, data: Path, **more: Any) -> tuple[Task, TensorData]:
    task = task_of(config(name, data, **more))
    found = records_of(task, "train")
    assert found is not None
    return task, found


def lines(folder: Path) -> set[str]:
    return {line for file in folder.iterdir() for line in file.read_text(encoding="utf-8").splitlines()}


def test_every_review_is_in_one_split_and_tuning_never_sees_a_test_review(
    source: Path, prepared: Path, tmp_path: Path
) -> None:
    train, test = lines(prepared / "train"), lines(prepared / "test")
    assert len(train | test) == 400
    assert not train & test
    assert 40 <= len(test) <= 120
    assert all("caf\xe9" in line for line in train | test)
    runpy.run_path(str(EXAMPLE / "prepare.py"))["main"](source, tmp_path / "tuning", tuning=True)
    tuned, held_out = lines(tmp_path / "tuning" / "train"), lines(tmp_path / "tuning" / "test")
    assert tuned | held_out == train
    assert not tuned & held_out
    assert 30 <= len(held_out) <= 110


def test_the_lexicon_is_that_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "vaderSentiment"
    package.mkdir()
    (package / "__init__.py").touch()
    raw = "$:\t-1.5\t0.8\nwonderful\t2.7\t0.9\nawful\t-2.0\t0.5\nfed up\t-1.8\t0.6\n"
    (package / "vader_lexicon.txt").write_text(raw, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    runpy.run_path(str(EXAMPLE / "prepare.py"))["lexicon"](tmp_path)
    assert (tmp_path / "lexicon.txt").read_text(encoding="utf-8") == LEXICON


def test_words_lose_common_ones_and_keep_negations(prepared: Path) -> None:
    import words

    review = "It is NOT a wonderful film"
    assert words.words_of(review, beginnings=False) == ["not", "wonderful", "film"]
    assert words.words_of(review, beginnings=True) == ["not", "wonderful", "film", "<wond", "<wonde"]
    assert set(words.words_of("amusing", True)) & set(words.words_of("amused", True)) == {"<amus"}


def test_records_are_those_of_the_text_source_and_tokens_in_reach(prepared: Path) -> None:
    task, data = task_and_data("bag", prepared)
    assert set(data.x[data.y == 1][:, 0].tolist()) == {2}  # wonderful: second in the lexicon
    assert data.vocabulary == 1 + 2 + 16384
    plain = config("bag", prepared, task="", tokenizer="bytes")
    known = records_of(task_of(plain), "train")
    assert known is not None
    assert data.fingerprint() == known.fingerprint()
    assert len(data.raw) == len(data) == len(lines(prepared / "train"))
    assert data.classes == task.class_names == ("neg", "pos")


def test_sites_with_another_lexicon_are_told_apart(prepared: Path) -> None:
    from fl_dp.tasks.identity import identity

    before = identity(task_of(config("bag", prepared)))
    (prepared / "lexicon.txt").write_text(LEXICON + "zest\t1.0\n", encoding="utf-8")
    assert identity(task_of(config("bag", prepared))) != before


def test_a_bag_starts_from_the_lexicon_and_knows_no_order(prepared: Path) -> None:
    task, data = task_and_data("bag", prepared)
    outputs = new_model(task)(data.x)
    apart = outputs[:, 1] - outputs[:, 0]
    assert (apart[data.y == 1] > 0).all()  # "wonderful" stands in them
    assert torch.allclose(apart[data.y == 0], torch.zeros(1), atol=1e-6)  # the lexicon lacks "boring"
    word = torch.full((1, 96), 0)
    word[0, 5] = 2
    assert torch.allclose(new_model(task)(word).diff()[0, 0], torch.tensor(4 * 2.7 / 4))
    moved = torch.cat([data.x[:, -30:], data.x[:, :-30]], dim=1)
    assert torch.allclose(outputs, new_model(task)(moved))


@pytest.mark.parametrize("name", ["Counts", "CountsFromLexicon"])
def test_sums_of_weights_are_a_regression_on_counts(prepared: Path, name: str) -> None:
    task, data = task_and_data("counts", prepared, task=f"{EXAMPLE / 'counts.py'}:{name}")
    model = new_model(task)
    table = model.get_parameter("weights.weight")
    torch.nn.init.normal_(table)
    counts = torch.zeros(len(data), data.vocabulary)
    counts.scatter_add_(1, data.x, torch.ones(data.x.shape))
    counts[:, 0] = 0
    assert torch.allclose(model(data.x), counts @ table, atol=1e-5)


def test_the_transformer_takes_what_the_example_gives_it(prepared: Path) -> None:
    task, data = task_and_data("transformer", prepared)
    assert data.x.shape[1] == 32
    assert new_model(task)(data.x[:3]).shape == (3, 2)
