"""A choice is a file or a row in one: listed without being imported, loaded by name, refused in words."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from fl_dp import choices
from fl_dp.choices import Choices, nearest, one_of
from fl_dp.errors import ConfigError


@pytest.fixture
def colours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Choices:
    """A folder with two choices, one file that lacks its descriptor, and one with a table of two more."""
    folder = tmp_path / "paintbox" / "colours"
    folder.mkdir(parents=True)
    (tmp_path / "paintbox" / "__init__.py").write_text("")
    (folder / "__init__.py").write_text("")
    (folder / "dark_red.py").write_text("COLOUR = 'ff0000'\n")
    (folder / "green.py").write_text("COLOUR = '00ff00'\n")
    (folder / "blank.py").write_text("")
    (folder / "greys.py").write_text(
        "GREY = '808080'\n\nCHOICES = {\n    'grey': GREY,\n    'light-grey': 3,\n}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.startswith("paintbox")]:
        monkeypatch.delitem(sys.modules, name)
    choices._files.cache_clear()
    return Choices("colour", "paintbox.colours", "COLOUR", dashed=True)


def test_listing_imports_no_choice(colours: Choices) -> None:
    assert colours.names() == ("blank", "dark-red", "green", "grey", "light-grey")
    assert not [name for name in sys.modules if name.startswith("paintbox.colours.")]


def test_only_the_chosen_file_is_imported(colours: Choices) -> None:
    assert colours.load("dark-red:deep", str) == "ff0000"
    assert [name for name in sys.modules if name.startswith("paintbox.colours.")] == [
        "paintbox.colours.dark_red"
    ]


def test_a_row_is_a_choice_and_its_file_is_none(colours: Choices) -> None:
    assert colours.load("grey", str) == "808080"
    with pytest.raises(
        ConfigError, match=r"colour = 'light-grey': paintbox.colours.greys .* is 3, expected a str"
    ):
        colours.load("light-grey", str)
    with pytest.raises(ConfigError, match=r"did you mean grey\?"):
        colours.check("greys")


def test_one_file_may_be_all_of_a_kind(colours: Choices) -> None:
    greys = Choices("colour", "paintbox.colours.greys", "COLOUR")
    assert greys.names() == ("grey", "light-grey")
    assert greys.load("grey", str) == "808080"


def test_a_name_that_two_hold_is_refused(colours: Choices, tmp_path: Path) -> None:
    (tmp_path / "paintbox" / "colours" / "grey.py").write_text("COLOUR = '777777'\n")
    choices._files.cache_clear()
    with pytest.raises(ConfigError, match=r"paintbox.colours.grey.* both hold 'grey'; remove one of them"):
        colours.names()


@pytest.mark.parametrize("name", ["dark_red", "reds", "", "__init__", ".green"])
def test_an_unknown_name_is_refused_with_all_names(colours: Choices, name: str) -> None:
    with pytest.raises(ConfigError, match=r"colour = .*: expected blank or dark-red or green"):
        colours.check(name)
    with pytest.raises(ConfigError, match="expected blank or dark-red or green"):
        colours.load(name, str)


def test_a_file_without_its_descriptor_is_named(colours: Choices) -> None:
    with pytest.raises(ConfigError, match=r"paintbox.colours.blank cannot be used: its COLOUR is nothing"):
        colours.load("blank", str)
    with pytest.raises(ConfigError, match=r"its COLOUR is '00ff00', expected a int"):
        colours.load("green", int)


def test_a_file_that_cannot_be_imported_is_named(colours: Choices, tmp_path: Path) -> None:
    (tmp_path / "paintbox" / "colours" / "broken.py").write_text("COLOUR = 1 +\n")
    choices._files.cache_clear()
    with pytest.raises(
        ConfigError, match=r"colour = 'broken': paintbox.colours.broken cannot be used: Syntax"
    ):
        colours.load("broken", int)


def test_packages_outside_join_and_never_shadow(colours: Choices, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        EntryPoint("green", "os.path:sep", "fl_dp.colours"),
        EntryPoint("blue", "os.path:sep", "fl_dp.colours"),
    ]
    monkeypatch.setattr(choices, "entry_points", lambda group: [one for one in entries if one.group == group])
    assert colours.group == "fl_dp.colours"
    assert colours.names() == ("blank", "blue", "dark-red", "green", "grey", "light-grey")
    assert colours.load("blue", str) == "/"
    assert colours.load("green", str) == "00ff00"
    assert "blue" not in colours.built_in()


def test_an_argument_is_what_stands_behind_the_first_colon(colours: Choices) -> None:
    assert colours.argument("green:a:b", "SHADE") == "a:b"
    assert colours.argument("green", None) == ""


@pytest.mark.parametrize("value", ["green", "green:"])
def test_a_missing_argument_is_asked_for(colours: Choices, value: str) -> None:
    with pytest.raises(ConfigError, match=f"colour = '{value}': green takes an argument; write green:SHADE"):
        colours.argument(value, "SHADE")


@pytest.mark.parametrize("value", ["green:", "green:deep"])
def test_an_argument_that_nobody_reads_is_refused(colours: Choices, value: str) -> None:
    with pytest.raises(ConfigError, match=f"colour = '{value}': green takes no argument; write green"):
        colours.argument(value, None)


@pytest.mark.parametrize(
    ("value", "names", "words"),
    [
        ("dirichle:3", ["iid", "dirichlet"], "expected iid or dirichlet; did you mean dirichlet?"),
        ("/a/b.csv", ["csv", "iid"], "expected csv or iid; did you mean csv:/a/b.csv?"),
        ("b.npz", ["csv", "iid"], "expected csv or iid."),
        ("Tanh_CNN", ["tanh-cnn", "linear"], "expected tanh-cnn or linear; did you mean tanh-cnn?"),
        ("something", ["iid", "by"], "expected iid or by."),
        ("", ["iid"], "expected iid."),
    ],
)
def test_what_was_expected_ends_with_what_was_meant(value: str, names: list[str], words: str) -> None:
    assert one_of(value, names) == words


def test_of_many_names_their_command_is_told() -> None:
    many = [f"name-{letter}" * 2 for letter in "abcdefghijklmnopq"]
    assert one_of("xyz", many, key="model", also="FILE.py:NAME") == (
        "expected one of 17 names, see fl-dp keys model, or FILE.py:NAME."
    )
    assert nearest(many[3][:-1], many) == many[3]
