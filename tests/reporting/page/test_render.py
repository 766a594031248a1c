"""The page as a whole: what stands in it, in which order, and that strangers' texts stay texts."""

import html
import re
import shutil
from itertools import pairwise

import pytest

from fl_dp.durable_files import exclusive
from fl_dp.errors import ConfigError
from fl_dp.kits.keys import fingerprint
from fl_dp.reporting.page.approval import write_approval
from fl_dp.reporting.page.render import render_page
from fl_dp.reporting.provenance import page_digest
from fl_dp.reporting.run_folder import RunFolder

from .conftest import Make
from .reading import Page, page_of

HOSTILE = (
    r"$\frac$",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a\u202eb\x00\x1b[31m",
    "]]></desc><script>",
    "{{ 7919 * 7919 }}{% raw %}",
    "=HYPERLINK(1)",
    "#000001",
    "_hidden",
    "病院 😀 e" + "\u0301" * 50,
)


def test_a_page_is_whole_and_loads_nothing(make: Make) -> None:
    html = render_page(make())
    page = Page(html)
    assert page.open == []
    (policy,) = [one for one in page.all("meta") if one.get("http-equiv") == "Content-Security-Policy"]
    assert str(policy["content"]).startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    assert not page.all("script")
    assert not page.all("link")
    assert not page.all("img")
    addresses = set(re.findall(r"https?://[^\"' <]+", html))
    assert addresses == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # names, never loaded
    assert "url(#" in html or 'href="#' in html
    assert not re.search(r"url\((?!#)", html)


def test_title_and_footer_name_run_and_digest_whatever_it_is_called(make: Make) -> None:
    """Of a folder that was moved it is the name that config.toml has: it stays, and the digest covers it."""
    called = 'a"; } <b> \\9 \u202e'
    folder = make(settings={"out": f"/home/mallory/{called}"})
    page = render_page(folder)
    digest, shown = fingerprint(page_digest(folder)), called.replace("\u202e", "\\u202e")
    (title,) = re.findall("<title>(.*)</title>", page)
    assert html.unescape(title) == f"Run {shown}, SHA-256 {digest}"
    (foot,) = re.findall(r'@bottom-left \{ content: "([A-Za-z0-9\\]*)"; \}', page)
    read = re.sub(r"\\([0-9a-f]{6})", lambda found: chr(int(found[1], 16)), foot)
    assert read == f"Run {shown}\nSHA-256 {digest}"
    assert "mallory" not in page
    assert "<title>Run 17, " in render_page(make("older"))  # its files name no folder


def test_headings_are_in_order_and_every_section_has_one(make: Make) -> None:
    page = page_of(make())
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.tags:
        for named in str(attributes.get("aria-labelledby") or "").split():
            assert named in ids


def test_figures_and_tables_can_be_read_without_seeing_them(make: Make) -> None:
    page = page_of(make())
    figures = page.all("svg")
    assert len(figures) == 2  # and a third where the answers to test records are known
    assert all(one["role"] == "img" and one["aria-labelledby"] for one in figures)
    ids = {attributes.get("id") for _, attributes in page.tags}
    assert all(set(str(one["aria-labelledby"]).split()) <= ids for one in figures)
    folded = len(page.all("summary")) - 4  # of parts
    assert len(page.all("caption")) + folded == 1 + len(page.all("table")) >= 5
    assert all(one["scope"] in ("row", "col") for one in page.all("th"))
    assert page.all("a")[0] == {"class": "skip", "href": "#main"}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_strangers_wrote_stays_text(make: Make, name: str) -> None:
    folder = make(clients=(name, "south"), reason=name, metrics={name: 0.5})
    write_approval(folder, purpose=name, approver=name, operator=name)
    html = render_page(folder)
    page = Page(html)
    assert page.open == []
    assert html.encode()  # no lone surrogates
    assert not page.all("script")
    assert not page.all("img")
    assert not any(key.startswith("on") for _, attributes in page.tags for key in attributes)
    assert not re.search("[\x00-\x08\x0b-\x1f\u200e\u200f\u202a-\u202e\u2066-\u2069]", html)
    assert "62710561" not in page.text  # what a template would make of one of them
    assert (name in page.text) is not any(ord(one) > 0x2FF or ord(one) < 32 for one in name)


def test_the_same_files_give_the_same_bytes_wherever_they_lie(make: Make, tmp_path) -> None:
    folder = make()
    shutil.copytree(folder.path, tmp_path / "elsewhere")
    html = render_page(folder)
    assert html == render_page(RunFolder(tmp_path / "elsewhere"))
    assert str(tmp_path) not in html


def test_no_place_of_the_machine_is_shown(make: Make) -> None:
    places = {"data": "csv:/home/mallory/secret/{client}.csv", "out": "/srv/out", "data-root": "/srv/root"}
    text = page_of(
        make(settings={**places, "task": "/home/mallory/t.py:Mine", "schema": "C:\\mallory\\s.toml"})
    ).text
    assert "csv:{client}.csv" in text
    assert "t.py:Mine" in text
    for place in ("mallory", "/srv/", "secret"):
        assert place not in text


def test_words_of_the_guarantee(make: Make) -> None:
    text = page_of(make()).text
    assert "For one record at one client: epsilon 0.76, delta 1e-05" in text  # 0.751, rounded up
    assert "k of them with k times epsilon" in text
    assert "Conclusions about people in general are not covered." in text
    assert "stays released" in text
    assert "If someone has records at several clients, add those clients' epsilons." in text
    assert "whole plan: epsilon 2.50" in text
    assert "NOT PRIVATE" not in text


def test_without_privacy_it_says_so_all_over(make: Make) -> None:
    text = page_of(make(private=False)).text
    assert text.count("NOT PRIVATE") >= 6
    for words in ("add or remove", "right with a probability", "epsilon 0", "Epsilon 0"):
        assert words not in text


def test_one_file_that_says_not_private_is_enough(make: Make) -> None:
    folder = make(settings={"privacy": "off"})  # while the summary claims that it was
    assert "NOT PRIVATE" in page_of(folder).text


def test_lines_to_fill_in_by_hand_until_somebody_has(make: Make) -> None:
    folder = make()
    assert render_page(folder).count("to be filled in by hand") == 9
    before = render_page(folder)
    write_approval(folder, purpose="Triage", approver="Dr. Ng")
    page = page_of(folder)
    assert render_page(folder).count("to be filled in by hand") == 7
    assert "Dr. Ng" in page.text
    assert render_page(folder) != before


def test_no_run_and_a_damaged_one_are_named(tmp_path, make: Make) -> None:
    with pytest.raises(ConfigError, match="holds no run"):
        render_page(RunFolder(tmp_path))
    begun = RunFolder(tmp_path)
    begun.config.write_text("rounds = 3")
    with pytest.raises(ConfigError, match="no round of this run is over and nothing works on it"):
        render_page(begun)
    with exclusive(begun.lock), pytest.raises(ConfigError, match="try again after the first one"):
        render_page(begun)
    folder = make()
    folder.statements.write_text('{"statements": [1]}')
    with pytest.raises(ConfigError, match=r"statements\.json: is damaged"):
        render_page(folder)
