"""What is written of all keys: docs/keys.md is as the code has it, and files run as they are written."""

import re
import tomllib
from pathlib import Path

import pytest

from fl_dp.config.all_keys import by_group, client_file, keys_of, keys_page, run_file, toml_value
from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_as_the_code_has_it():
    assert (DOCS / "keys.md").read_text() == keys_page(), "make keys writes it anew"


def test_pages_that_settings_name_are_there():
    for kind in (RunConfig, ClientConfig):
        for key in keys_of(kind):
            page, _, part = key.about.page.partition("#")
            if page:
                headings = re.findall(r"^#+ (.*)$", (DOCS / page).read_text(), flags=re.MULTILINE)
                assert not part or part in {_anchor(one) for one in headings}, key.about.page


def _anchor(heading: str) -> str:
    """As GitHub and mkdocs make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_every_row_has_four_cells():
    rows = [line for line in keys_page().splitlines() if line.startswith("| `")]
    assert len(rows) == len(keys_of(RunConfig)) + len(keys_of(ClientConfig))
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}


@pytest.mark.parametrize(
    ("kind", "text"), [(RunConfig, run_file("x.toml")), (ClientConfig, client_file("x"))]
)
def test_a_file_has_every_key_with_its_default(kind, text):
    assert max(map(len, text.splitlines())) <= 100
    whole = re.sub(r"^# (?=[a-z-]+ = )", "", text, flags=re.MULTILINE)
    found = tomllib.loads(whole)
    if kind is RunConfig:
        assert RunConfig.from_flat(tomllib.loads(text)) == RunConfig() == RunConfig.from_flat(found)
        assert 10 < len(tomllib.loads(text)) < 30
        assert found.keys() == RunConfig().to_flat().keys()
        return
    assert tomllib.loads(text) == {}, "each client's own are to be filled in"
    filled = {**found, "client": "a", "ledger": "l"}
    assert ClientConfig.from_flat(filled) == ClientConfig(client="a", ledger="l")
    assert filled.keys() == ClientConfig(client="a", ledger="l").to_flat().keys()


def test_all_keys_are_there_once_and_those_of_a_group_together():
    keys = keys_of(RunConfig)
    assert {key.name for key in keys} == RunConfig().to_flat().keys()
    groups = [group for group, _ in by_group(keys)]
    assert len(groups) == len(set(groups))
    first, *others = by_group(keys, common_first=True)
    assert {"data", "clients", "rounds", "epsilon", "noise-multiplier"} <= {key.name for key in first[1]}
    named = [key.name for _, members in (first, *others) for key in members]
    assert sorted(named) == sorted(key.name for key in keys)


def test_values_as_toml():
    assert [toml_value(one) for one in (True, 'a "b"', 1, 0.5, float("inf"))] == [
        "true",
        '"a \\"b\\""',
        "1",
        "0.5",
        "inf",
    ]
