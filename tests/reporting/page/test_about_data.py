"""Which data: what model.json declares, and the tables of classes and subgroups."""

import json
from typing import Any

import pytest

from fl_dp.records import LEAST_CELL
from fl_dp.reporting.page.read import data_facts
from fl_dp.reporting.page.render import render_page
from fl_dp.reporting.run_folder import RunFolder

from .conftest import Make
from .reading import Page

FORM = {"input_shape": [13], "outputs": 2, "targets": "class", "vocabulary": 0}
BY_CLASS = {"accuracy": 0.5, "accuracy-per-class[<i>ill</i>]": 0.125, "accuracy-per-class[rare]": None}


def text_of(folder: RunFolder) -> str:
    return Page(render_page(folder)).text


def describe(folder: RunFolder, **said: Any) -> RunFolder:
    folder.description.write_text(
        json.dumps({"data": "csv", "form": FORM, "classes": ["ill", "well"], **said})
    )
    return folder


def test_kind_form_and_classes_are_said(make: Make) -> None:
    text = text_of(describe(make()))
    assert "csv. NOT what sites have stated: digits" in text
    assert "One record 13 numbers Outputs 2 Names of what is predicted ill, well" in text


@pytest.mark.parametrize(
    "said",
    [
        {"form": None, "classes": None},
        {"form": {"input_shape": ["x"], "outputs": 1, "vocabulary": 0}, "classes": {}},
        {"form": {**FORM, "targets": []}, "classes": [["a"], 3]},
        {"form": {**FORM, "outputs": True}},
    ],
)
def test_what_has_another_form_is_left_out(make: Make, said: dict[str, Any]) -> None:
    assert Page(render_page(describe(make(), **said))).open == []
    assert "ill" not in dict(data_facts(said)).values()


def test_a_servers_file_is_shown_as_no_sites(make: Make) -> None:
    """In a federation the server's setting names its own file, which no site has."""
    text = text_of(make(settings={"data": "csv:/x/patients.csv"}, signed=[]))
    assert "Data, in the server's words digits Clients" in text  # as model.json has it
    assert "patients" not in text.partition("Settings")[0]
    assert "north the server alone" in text


def test_accuracies_of_classes_are_a_table_and_small_classes_are_hidden(make: Make) -> None:
    folder = make(metrics={**BY_CLASS, "own[group]": 0.25}, suppressed_below=LEAST_CELL)
    text = text_of(folder)
    for row in (
        "accuracy 0.5000",
        "accuracy-per-class[<i>ill</i>] 0.1250",
        "accuracy-per-class[rare] hidden",
    ):
        assert f"{row} the server's" in text
    assert "1 metric of classes or subgroups left out" in text
    assert "0.2500" not in text


@pytest.mark.parametrize("below", [0, LEAST_CELL - 1])
def test_files_that_hide_no_small_classes_have_no_table(make: Make, below: int) -> None:
    folder = make(metrics=BY_CLASS, suppressed_below=below)
    killed = make("k", metrics=BY_CLASS, over=False)
    for one in (folder, killed):
        assert "<i>ill" not in text_of(one)
        assert "0.125" not in text_of(one)
