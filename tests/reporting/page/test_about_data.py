"""Which data: what model.json and the schema declare, and the tables of classes and subgroups."""

import hashlib
import json
from typing import Any

import pytest

from fl_dp.records import LEAST_CELL
from fl_dp.reporting.page.described import data_facts
from fl_dp.reporting.page.render import render_page
from fl_dp.reporting.run_folder import RunFolder

from .conftest import Make, change_summary
from .reading import Page

SCHEMA = """
[columns.age]
kind = "number"
range = [18, 90]
[columns."<b>ward</b>"]
kind = "category"
categories = ["a", 2]
subgroups = { surgery = ["a"] }
[columns.area]
kind = "number"
points = [0, 20, 500]
[columns.year]
kind = "subgroup"
bands = [1990, 2000]
[columns.outcome]
kind = "label"
classes = { ill = [1], well = [0] }
[columns.patient]
kind = "group"
"""
FORM = {"input_shape": [13], "outputs": 2, "targets": "class", "vocabulary": 0}
BY_CLASS = {"accuracy": 0.5, "accuracy-per-class[<i>ill</i>]": 0.125, "accuracy-per-class[rare]": None}

SUBGROUPS = {"all": 0.75, "sex = <b>w</b>": 0.25, "ward = a]": None}  # a subgroup may be called all


def text_of(folder: RunFolder) -> str:
    return Page(render_page(folder)).text


def describe(folder: RunFolder, **said: Any) -> RunFolder:
    folder.description.write_text(
        json.dumps({"data": "csv", "form": FORM, "classes": ["ill", "well"], **said})
    )
    return folder


def test_kind_form_columns_classes_and_sizes_are_said(make: Make) -> None:
    text = text_of(describe(make(), schema=SCHEMA))
    assert "As the server's operator calls them csv. NOT what sites have stated: digits" in text
    assert text.count("Data digits, stated, but signed by nobody: 2 clients") == 2
    assert "Declared in all 200 records at 2 clients" in text
    assert "One record 13 numbers Predicted one of 2 classes Names of what is predicted ill, well" in text
    assert "age number 18 to 90" in text
    assert "area number 0, 20, 500" in text
    assert "<b>ward</b> category a, 2; subgroups surgery" in text
    assert "year subgroup bands 1990, 2000" in text
    assert "outcome label ill, well" in text
    assert "patient group" in text
    assert hashlib.sha256(SCHEMA.encode()).hexdigest() in text


@pytest.mark.parametrize(
    "said",
    [
        {"form": None, "classes": None, "schema": None},
        {"form": {"input_shape": ["x"], "outputs": 1, "vocabulary": 0}, "classes": {}, "schema": "]"},
        {"form": {**FORM, "targets": []}, "classes": [["a"], 3], "schema": "[columns]\na = 1"},
        {"form": {**FORM, "outputs": True}, "schema": "columns = 3"},
        {"schema": "a = " + "[" * 5000},
    ],
)
def test_what_has_another_form_is_left_out(make: Make, said: dict[str, Any]) -> None:
    assert Page(render_page(describe(make(), **said))).open == []
    assert data_facts(said).columns == ()


def test_a_servers_file_is_shown_as_no_sites(make: Make) -> None:
    """In a federation the server's setting names its own file, which no site has."""
    text = text_of(make(settings={"data": "csv:/x/patients.csv"}, signed=[]))
    alone = "Data digits, according to the server's operator alone"  # as model.json has it
    assert text.count(alone) == 2
    assert "north digits 100 record" in text


def test_how_many_records_of_a_person_count(make: Make) -> None:
    settings = {"unit": "person:patient", "records-per-person": 4}
    text = text_of(make(federation={"unit": "person"}, settings=settings))
    assert "In a step at most 4 records of a person count." in text
    assert "Records of one person that count in a step 4 at most" in text
    assert "of a person count" not in text_of(make("other"))


def test_accuracies_of_classes_are_a_table_and_small_classes_are_hidden(make: Make) -> None:
    folder = make(metrics={**BY_CLASS, "own[group]": 0.25}, suppressed_below=LEAST_CELL)
    text = text_of(folder)
    assert (
        "Accuracy of each class, on the server's test data class value all 0.5000 <i>ill</i> 0.1250 "
        "rare hidden the worst shown <i>ill</i> the worst minus all -0.3750"
    ) in text
    assert "1 numbers of single classes or subgroups are not shown" in text
    assert "0.2500" not in text


@pytest.mark.parametrize("below", [0, LEAST_CELL - 1])
def test_files_that_hide_no_small_classes_have_no_table(make: Make, below: int) -> None:
    folder = make(metrics=BY_CLASS, suppressed_below=below)
    older = change_summary(make("older", metrics=BY_CLASS), lambda summary: summary.pop("suppressed_below"))
    killed = make("k", metrics=BY_CLASS, over=False)
    for one in (folder, older, killed):
        assert "<i>ill" not in text_of(one)
        assert "0.125" not in text_of(one)


def test_subgroups_have_a_table_of_each_metric_with_the_worst_and_its_distance(make: Make) -> None:
    """Of errors the worst is the largest."""
    by_subgroup = {f"accuracy-per-subgroup[{name}]": value for name, value in SUBGROUPS.items()}
    errors = {f"mae-per-subgroup[{name}]": value for name, value in SUBGROUPS.items()}
    told = {"suppressed_below": LEAST_CELL}
    text = text_of(make(metrics={"accuracy": 0.5, **by_subgroup}, **told))
    assert (
        "Accuracy of each subgroup, on the server's test data subgroup value "
        "all 0.5000 all 0.7500 sex = <b>w</b> 0.2500 ward = a] hidden "
        "the worst shown sex = <b>w</b> the worst minus all -0.2500"
    ) in text
    wrong = make("wrong", metrics={"mae": 0.5, **errors}, **told)
    assert "the worst shown all the worst minus all +0.2500" in text_of(wrong)
    assert "Mean absolute error of each subgroup" in text_of(wrong)


def test_recall_and_selection_rate_of_subgroups_have_all_records_among_them(make: Make) -> None:
    """Of selection rates neither end is the worst; where classes are hidden, so is the value of all."""
    told = {"all": 0.5, "sex = w": 0.25, "sex = m": 0.75}
    metrics = {f"recall-per-subgroup[{name}]": value for name, value in told.items()}
    metrics |= {f"selection-rate-per-subgroup[{name}]": value for name, value in told.items()}
    metrics |= {f"auroc-per-subgroup[{name}]": None for name in told}
    text = text_of(make(metrics=metrics, suppressed_below=LEAST_CELL))
    assert (
        "all 0.5000 sex = w 0.2500 sex = m 0.7500 the worst shown sex = w the worst minus all -0.2500" in text
    )
    assert "sex = m 0.7500 the largest shown minus the smallest 0.5000" in text
    assert "all hidden sex = w hidden sex = m hidden the worst shown hidden" in text


def test_of_small_ones_alone_no_worst_is_told(make: Make) -> None:
    folder = make(metrics={"accuracy-per-subgroup[sex = w]": None}, suppressed_below=LEAST_CELL)
    assert "all not known sex = w hidden the worst shown hidden the worst minus all not known" in text_of(
        folder
    )
