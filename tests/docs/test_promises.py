"""Tests that the pages name are there, and choices have a row; decisions tell of their day."""

import re

import pytest
from docs.blocks import ROOT

from fl_dp import choices
from fl_dp.config.run import MAY_CHANGE

NAMED = re.compile(r"`((?:tests/|(?:[a-z_]+/)*test_)[\w/]*\.py)`")
PAGES = {  # without RULES, which users do not choose
    "ACCOUNTANTS": "accounting",
    "AGGREGATIONS": "strategies",
    "AUGMENTATIONS": "training",
    "CHECKS": "verify",
    "FEATURES": "models",
    "LOCAL_ALGORITHMS": "strategies",
    "LOSSES": "training",
    "METRICS": "training",
    "MODELS": "models",
    "PARTITIONS": "data",
    "SERVER_OPTIMIZERS": "strategies",
    "SOURCES": "data",
    "TRACKERS": "running",
}
FILES = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*.py")]


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.stem)
def test_every_test_that_a_page_names_is_there(page):
    named = NAMED.findall(page.read_text(encoding="utf-8"))
    assert [name for name in named if not any(f"/{file}".endswith(f"/{name}") for file in FILES)] == []


def test_readmes_figures_beside_other_projects_are_those_of_the_benchmarks():
    page = (ROOT / "README.md").read_text(encoding="utf-8").partition("## How it compares")[2]
    page = page.partition("\n## ")[0].replace("100 of 1,000", "")
    told = set(re.findall(r"(?<![\w.,])\d[\d,.]*\d(?![\w])", page))
    assert len(told) >= 6
    assert told - set(re.findall(r"[\d,.]*\d", (ROOT / "benchmarks" / "README.md").read_text())) == set()


def test_running_names_every_key_that_may_be_changed():
    page = " ".join((ROOT / "docs" / "running.md").read_text(encoding="utf-8").split())
    named = page.partition("change only these keys: ")[2].partition(". ")[0]
    assert set(re.findall("`([^`]+)`", named)) == MAY_CHANGE


@pytest.mark.parametrize(("kind", "page"), PAGES.items())
def test_every_choice_stands_on_the_page_of_its_kind(kind, page):
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    named = {name for word in re.findall("`([^`\n]+)`", text) for name in re.split(r"[^\w-]+", word)}
    missing = set(getattr(choices, kind).built_in()) - named
    assert not missing, f"name {sorted(missing)} on docs/{page}.md"
