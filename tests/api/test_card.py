"""What a model's card tells of where it was trained: no folder of that machine."""

from types import SimpleNamespace

import pytest

from fl_dp.api import card
from fl_dp.config.run import PATHS


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("csv:/home/ann/patients.csv", "csv:patients.csv"),
        ("/home/ann/tokenizer.json", "tokenizer.json"),
        ("/home/ann/my_task.py:Ours", "my_task.py:Ours"),
        ("words:16384", "words:16384"),
        ("bytes", "bytes"),
        ("", ""),
    ],
)
def test_of_a_path_the_files_name_is_told(value, told):
    assert card._file_name(value) == told


def test_every_setting_that_may_be_a_path_is_shortened_or_left_out():
    shortened = {"data", "task", "model", "schema", "start", "tokenizer", "strategy"}
    assert set(card._PLACES) | shortened == PATHS
    assert {"data-root", "out"} <= set(card._PLACES)


@pytest.mark.parametrize(
    ("federation", "protected"),
    [({"unit": "person"}, "add or remove one person with all records"), ({}, "add or remove one record")],
)
def test_the_promise_is_of_the_runs_unit(federation, protected):
    result = SimpleNamespace(private=True, epsilon=1.0, delta=1e-5, summary={"federation": federation})
    found = card._guarantee(result)
    assert protected in found["promise"]
    assert found["unit"] == federation.get("unit")
