"""What a model says of new data: a line for each, in their order."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import fl_dp
from fl_dp.api.exporting import export
from fl_dp.api.predicting import disarmed, write_predictions
from fl_dp.errors import ConfigError, DataError

X = np.random.default_rng(0).normal(size=(700, 3)).astype(np.float32)


class Scores(fl_dp.Task):
    classes = ("=no", "@yes")  # a spreadsheet would compute both

    def model(self) -> nn.Module:
        return nn.Linear(3, 2)

    def losses(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        inputs, targets = batch
        return nn.functional.multi_margin_loss(model(inputs), targets, reduction="none")


@pytest.fixture
def data(tmp_path: Path) -> dict[str, str]:
    np.savez(tmp_path / "new.npz", x=X)
    return {"data": f"npz:{tmp_path / 'new.npz'}"}


def predict(result: fl_dp.Result, data: dict[str, str], out: Path) -> int:
    write_predictions(found := fl_dp.predict(result, data), out)
    return len(found)


def lines(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def test_of_classes_it_writes_the_answer_and_probabilities(make_run, data, tmp_path):
    result = fl_dp.load_run(make_run())
    assert predict(result, data, tmp_path / "out.csv") == len(X)
    found = lines(tmp_path / "out.csv")
    wanted = result.model(torch.from_numpy(X)).softmax(dim=1)
    assert [line["row"] for line in found] == [str(i) for i in range(len(X))]
    assert [line["answer"] for line in found] == [("no", "yes")[i] for i in wanted.argmax(dim=1)]
    told = [[float(line["probability no"]), float(line["probability yes"])] for line in found]
    np.testing.assert_allclose(told, wanted.detach(), atol=1e-5)


def test_with_losses_of_its_own_a_tasks_outputs_are_no_probabilities(make_run, data, tmp_path):
    result = fl_dp.load_run(make_run(Scores), task=Scores)
    predict(result, data, tmp_path / "out.csv")
    first, wanted = lines(tmp_path / "out.csv")[0], result.model(torch.from_numpy(X[:1])).tolist()[0]
    assert first.keys() == {"row", "answer", "output =no", "output @yes"}
    assert first["answer"] == ("'=no", "'@yes")[wanted.index(max(wanted))]
    assert float(first["output =no"]) == pytest.approx(wanted[0], abs=1e-4)


def test_other_data_than_those_of_the_training_are_refused(make_run, tmp_path):
    np.savez(tmp_path / "wide.npz", x=np.zeros((2, 5), np.float32))
    result = fl_dp.load_run(make_run())
    # of a source that has labelled data alone its test data are asked about
    for data, shape in ((f"npz:{tmp_path / 'wide.npz'}", r"\(5,\)"), ("digits", r"\(1, 8, 8\)")):
        with pytest.raises(DataError, match=rf"shape {shape}; the model was trained on \(3,\)"):
            predict(result, {"data": data}, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


TABLE_SCHEMA = """
[columns.age]
kind = "number"
range = [0, 100]
[columns.pulse]
kind = "number"
range = [0, 200]
[columns.dose]
kind = "number"
range = [0, 10]
[columns.ill]
kind = "label"
classes = ["no", "yes"]
"""


def test_a_table_is_read_by_the_schema_of_the_training_and_a_cell_beside_it_refused_unquoted(
    make_run, tmp_path
):
    """It needs no labels."""
    (tmp_path / "old.csv").write_text("age,pulse,dose,ill\n1,2,3,no\n")
    (tmp_path / "old.schema.toml").write_text(TABLE_SCHEMA)
    result = fl_dp.load_run(make_run(data=f"csv:{tmp_path / 'old.csv'}"))
    (tmp_path / "old.schema.toml").unlink()
    new = {"data": f"csv:{tmp_path / 'new.csv'}"}
    (tmp_path / "new.csv").write_text("dose,age,pulse\n5,50,100\n10,0,200\n0,1,2\n")
    assert predict(result, new, tmp_path / "out.csv") == 3
    first = float(lines(tmp_path / "out.csv")[0]["probability no"])
    middle = result.model(torch.zeros(1, 3)).softmax(dim=1)[0, 0]  # halfway in each range is 0
    assert first == pytest.approx(middle.item(), abs=1e-5)
    (tmp_path / "new.csv").write_text("dose,age,pulse\n,77,100\n")
    with pytest.raises(DataError, match="column 'dose': has missing cells, in record 1, and no") as refused:
        predict(result, new, tmp_path / "out.csv")
    assert "77" not in str(refused.value).partition("new.csv")[2]


@pytest.mark.parametrize("separator", [",", ";"])
def test_frames_arrays_and_names_of_the_same_records_have_the_same_answers(make_run, tmp_path, separator):
    table = "age,pulse,dose,ill\n1,2,3,no\n50,100,5,yes\n"
    (tmp_path / "t.csv").write_text(table.replace(",", separator))
    (tmp_path / "t.schema.toml").write_text(f'separator = "{separator}"\n{TABLE_SCHEMA}')
    name = f"csv:{tmp_path / 't.csv'}"
    run = make_run(data=name)
    by_name = fl_dp.predict(run, name)
    assert list(by_name.columns) == ["answer", "probability no", "probability yes"]
    frame = pd.DataFrame({"dose": [3.0, 5.0], "age": [1, 50], "pulse": [2, 100]})
    pd.testing.assert_frame_equal(fl_dp.predict(run, frame), by_name)
    encoded = np.array([[-0.98, -0.98, -0.4], [0.0, 0.0, 0.0]])
    pd.testing.assert_frame_equal(fl_dp.predict(fl_dp.load_run(run), encoded), by_name)
    with pytest.raises(DataError, match=r"^the data frame: no column is named 'dose', which is an input"):
        fl_dp.predict(run, frame.drop(columns="dose"))


def test_the_card_of_an_exported_model_is_enough_to_make_its_inputs(make_run, tmp_path):
    (tmp_path / "t.csv").write_text("age,pulse,dose,ill\n1,2,3,no\n50,100,5,yes\n")
    (tmp_path / "t.schema.toml").write_text(TABLE_SCHEMA)
    result = fl_dp.load_run(make_run(data=f"csv:{tmp_path / 't.csv'}"))
    export(result, "state-dict", tmp_path / "out")
    card = tmp_path / "out" / "card.json"
    assert json.loads(card.read_text())["inputs"].endswith("in this order: age; pulse; dose")
    frame = pd.DataFrame({"dose": [3.0, 5.0], "age": [1, 50], "pulse": [2, 100]})
    inputs = fl_dp.encode(card, frame)
    np.testing.assert_allclose(inputs, [[-0.98, -0.98, -0.4], [0.0, 0.0, 0.0]], atol=1e-6)
    with pytest.raises(ConfigError, match=r"expected the card\.json"):
        fl_dp.encode(tmp_path / "t.csv", frame)


@pytest.mark.parametrize(
    "cell",
    [
        "=1+1",
        "+cmd",
        "+1+1",
        "+5",
        "-x",
        "-1+cmd",
        "-",
        "-1_0",
        "@SUM(A1)",
        "\tx",
        "\t=1",
        "\r=1",
        "  =1",
        " -1",
        "-1\n",
    ],
)
def test_formulas_are_disarmed(cell: str) -> None:
    assert disarmed(cell) == f"'{cell}"


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("", ""),
        (None, ""),
        (True, "true"),
        (-2, "-2"),
        (float("inf"), "inf"),
        (float("-inf"), "-inf"),
        ("-1.5", "-1.5"),
        ("-1.5e-3", "-1.5e-3"),
        ("1e-05", "1e-05"),
        ("a=b", "a=b"),
        ("NOT PRIVATE",) * 2,
    ],
)
def test_numbers_and_words_stay(value: object, cell: str) -> None:
    assert disarmed(value) == cell
