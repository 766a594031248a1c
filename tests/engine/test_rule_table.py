"""All rules are gathered from the files of one folder, and from nowhere else."""

from importlib.metadata import EntryPoint

import pytest

from fl_dp.choices import Choices
from fl_dp.engine.rule import Rule
from fl_dp.engine.rule_table import gathered
from fl_dp.errors import ConfigError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of rules with one file, and a function that adds another."""
    monkeypatch.syspath_prepend(tmp_path)
    package = f"rules_of_{tmp_path.name}"  # modules are imported once: each test has its own
    (tmp_path / package).mkdir()

    def add(file, text):
        (tmp_path / package / f"{file}.py").write_text(f"from fl_dp.engine.rule import Rule\n{text}\n")
        return Choices("rule", package, "RULES")

    add("__init__", "")
    add("one", "RULES = {'XBackward0': Rule(print)}")
    return add


def test_the_rules_of_all_files_are_gathered(folder):
    choices = folder("another", "RULES = {'YBackward0': Rule(repr, only_checked=True)}")
    assert gathered(choices) == {"XBackward0": Rule(print), "YBackward0": Rule(repr, only_checked=True)}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("RULES = {'XBackward0': Rule(repr)}", "another and one both have a rule for XBackward0; remove one"),
        ("RULES = {'YBackward0': repr}", r"another: RULES\['YBackward0'\] is not a Rule"),
        ("", "another cannot be used: its RULES is nothing"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_by_name(folder, text, words):
    choices = folder("another", text)
    with pytest.raises(ConfigError, match=words):
        gathered(choices)


def test_another_packages_rule_is_not_taken(folder, monkeypatch):
    """What is clipped rests on rules: a package that is only installed cannot bring one in."""
    entry = EntryPoint("another", "builtins:dict", "fl_dp.rules")
    monkeypatch.setattr("fl_dp.choices.entry_points", lambda group: [entry])
    choices = folder("__init__", "")
    assert "another" in choices.names()
    assert gathered(choices) == {"XBackward0": Rule(print)}
