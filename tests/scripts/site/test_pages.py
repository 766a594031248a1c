"""Links of the repository become links of the site, or plain text."""

from pathlib import Path

import pytest

from scripts.site.pages import ROOT, all_pages, as_page_of_the_site, fill

PAGES = {
    "README.md": "index.md",
    "docs/ledger.md": "ledger.md",
    "docs/run.svg": "run.svg",
    "docs/decisions/0001-a.md": "decisions/0001-a.md",
    "examples/hospitals/README.md": "examples/hospitals.md",
}


@pytest.mark.parametrize(
    ("path", "link", "becomes"),
    [
        ("README.md", "[x](docs/ledger.md#part)", "[x](ledger.md#part)"),
        ("README.md", "![x](docs/run.svg)", "![x](run.svg)"),
        ("README.md", "[x](examples/hospitals/README.md)", "[x](examples/hospitals.md)"),
        ("docs/ledger.md", "[x](../README.md#limits)", "[x](index.md#limits)"),
        ("docs/decisions/0001-a.md", "[x](../ledger.md)", "[x](../ledger.md)"),
        ("examples/hospitals/README.md", "[x](../../docs/ledger.md)", "[x](../ledger.md)"),
        ("examples/hospitals/README.md", "[task.py](task.py)", "task.py"),
        ("README.md", "[the engine](fl_dp/engine)", "the engine"),
        ("README.md", "[x](https://flower.ai)", "[x](https://flower.ai)"),
        ("README.md", "[x](#limits)", "[x](#limits)"),
        (
            "docs/ledger.md",
            "\n```bash north\nfl-dp\n```\n",
            "\n```bash\nfl-dp\n```\n",
        ),  # else headings are lost
        ("README.md", "[x](docs/nowhere.md)", "[x](docs/nowhere.md)"),
    ],
)
def test_a_link(path, link, becomes):
    (ROOT / "examples/hospitals/task.py").stat()
    assert as_page_of_the_site(f"a {link} b", path, PAGES) == f"a {becomes} b"


def test_every_page_of_the_repository_has_a_place_of_its_own():
    pages = all_pages()
    assert len(set(pages.values())) == len(pages)
    assert {"README.md", "CHANGELOG.md", "docs/privacy.md", "examples/hospitals/README.md"} <= pages.keys()
    assert all((Path(ROOT) / path).exists() for path in pages)


def test_a_section_is_filled_wherever_it_stands():
    navigation: list[object] = [{"First": "index.md"}, {"Why": ["a.md", {"Decisions": []}]}, {"Examples": []}]
    fill(navigation, "Decisions", ["decisions/1.md", "decisions/2.md"])
    fill(navigation, "Examples", ["examples/x.md"])
    why = {"Why": ["a.md", {"Decisions": ["decisions/1.md", "decisions/2.md"]}]}
    assert navigation == [{"First": "index.md"}, why, {"Examples": ["examples/x.md"]}]
