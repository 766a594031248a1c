"""The page in a real browser, where there is one: nothing is cut, nothing is complained about."""

import html
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fl_dp.kits.keys import fingerprint
from fl_dp.reporting.page.approval import write_approval
from fl_dp.reporting.page.facts import Round
from fl_dp.reporting.page.numbers import epsilon, measured
from fl_dp.reporting.page.read import read_run
from fl_dp.reporting.page.render import render_page
from fl_dp.reporting.page.tables import settings
from fl_dp.reporting.provenance import page_digest
from fl_dp.reporting.run_folder import RunFolder

from .conftest import Make, statement
from .runs import answered, ended, of_rounds, opened, served, signed

BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))),
    None,
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine: apt-get install chromium"),
]
# The page itself runs no script; a frame around it looks at what became of it.
_FRAME = """<!doctype html><title>look</title><body style="margin:0"><iframe style="border:0" width="{width}"
height="900" srcdoc="{page}"></iframe><script>addEventListener("load", () => {{
const page = document.querySelector("iframe").contentDocument, shown = page.documentElement;
const wide = [...page.querySelectorAll("main *")].filter(e => !e.closest(".scroll, svg, .unseen")
  && e.getBoundingClientRect().right > {width} + 1).map(e => e.tagName + "." + e.className);
const cut = [...page.querySelectorAll(".stacked *")].filter(
  e => e.getBoundingClientRect().right > {width} + 1).map(e => e.tagName + e.textContent.slice(0, 40));
const empty = [...page.querySelectorAll("svg")].filter(e => e.getBoundingClientRect().height < 50).length;
const hollow = [...page.querySelectorAll(".stacked td")].filter(
  e => e.checkVisibility() && !e.textContent.trim()).map(e => e.dataset.head);
const found = {{width: shown.scrollWidth, wide, empty, cut, hollow,
  figures: page.querySelectorAll("svg").length, tables: page.querySelectorAll("table").length,
  ink: page.defaultView.getComputedStyle(page.body).color}};
page.querySelectorAll("details").forEach(e => e.open = true);
const lines = (text, word) => {{
  const range = page.createRange();
  range.setStart(text, word.index);
  range.setEnd(text, word.index + word[0].length);
  return range.getClientRects().length;
}};
found.broken = [...page.querySelectorAll("tbody th > bdi")].filter(e => e.firstChild).flatMap(
  e => [...e.textContent.matchAll(/[a-z]+/g)].filter(word => lines(e.firstChild, word) > 1).map(String));
document.title = JSON.stringify(found);
}});</script>"""


def browse(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            str(BROWSER),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--enable-logging=stderr",
            "--virtual-time-budget=3000",
            *arguments,
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def looked_at(tmp_path: Path, folder: RunFolder, width: int) -> tuple[dict[str, object], str]:
    """What the frame found, and the console's lines."""
    import json

    # in a frame the page's own policy would forbid nothing more: the frame's script is outside of it
    frame = tmp_path / "frame.html"
    frame.write_text(_FRAME.format(width=width, page=html.escape(render_page(folder))))
    result = browse(tmp_path, "--dump-dom", f"--window-size={width + 50},1000", frame.as_uri())
    found = re.search(r"<title>(\{.*?\})</title>", result.stdout, re.DOTALL)
    assert found, result.stderr[-2000:]
    console = "\n".join(line for line in result.stderr.splitlines() if ":CONSOLE" in line)
    return json.loads(html.unescape(found[1])), console


def one_run(make: Make) -> RunFolder:
    names = [f"a hospital with a very long name and number {number}" for number in range(30)]
    return make(clients=["x" * 250, r"$\frac$", "<script>alert(1)</script>", *names], reason="y" * 250)


def answered_run(make: Make) -> RunFolder:
    names = [f"hypercholesterolaemia with a very long name and number {number}" for number in range(20)]
    run = answered(make(), at_sites=True, classes=names, confusion=[[7] * 20] * 20, scores=[])
    women = {"auroc[sex = women of a very long name]": {"value": 0.7, "low": 0.6, "high": 0.75}}
    return of_rounds(run, lambda line: line["site_metrics"]["metrics"].update(women))


@pytest.mark.parametrize("width", [360, 1440])
@pytest.mark.parametrize(("run", "figures", "tables"), [(one_run, 2, 5), (answered_run, 3, 5)])
def test_a_run_is_shown_whole(
    make: Make, tmp_path: Path, width: int, run: Callable[[Make], RunFolder], figures: int, tables: int
) -> None:
    found, console = looked_at(tmp_path, run(make), width)
    assert found["width"] <= width
    assert found["wide"] == []
    assert width > 400 or found["cut"] == []
    assert (found["figures"], found["empty"]) == (figures, 0)
    assert int(str(found["tables"])) >= tables
    assert console == ""


def test_no_word_of_a_row_s_name_is_broken_in_a_table_of_many_columns(make: Make, tmp_path: Path) -> None:
    assert looked_at(tmp_path, answered_run(make), 1440)[0]["broken"] == []


def test_on_a_phone_no_heading_stands_before_nothing(make: Make, tmp_path: Path) -> None:
    found, _ = looked_at(tmp_path, make(reason="not today"), 360)
    assert found["hollow"] == []


def test_it_is_printed_on_a4_without_a_word_lost(make: Make, tmp_path: Path) -> None:
    """Settings and rounds are folded on a screen. Sheet 1 is what is signed."""
    page, printed = tmp_path / "report.html", tmp_path / "report.pdf"
    called = 'night "9"; } <b>'
    folder = make(rounds=60, settings={"out": f"/x/{called}"})
    page.write_text(render_page(folder))
    browse(tmp_path, "--no-pdf-header-footer", f"--print-to-pdf={printed}", page.as_uri())
    content = printed.read_bytes()
    assert content.startswith(b"%PDF-")
    boxes = {
        tuple(map(round, map(float, box.split()))) for box in re.findall(rb"/MediaBox \[([^\]]*)\]", content)
    }
    assert boxes == {(0, 0, 595, 842)}
    first, *_ = sheets = printed_text(printed)
    for number, sheet in enumerate(sheets, 1):
        foot = f"{number} / {len(sheets)} Run {called} SHA-256 {fingerprint(page_digest(folder))}"
        assert sheet.startswith(foot)  # a PDF has the margins first
    for words in (
        f"training run {called}",
        "2: north, south",
        "6.0000",
        "15.01",
        "Signature",
        "The epsilon of 2 clients is ABOVE its budget.",
        "What fl-dp verify said about these files",
    ):
        assert words in first
    text, run = "".join(sheets).replace(" ", ""), read_run(folder)
    rows = list(settings(run).rows)
    rows += [(str(one.report.round), epsilon(one.report.epsilon), *numbers_of(one)) for one in run.history]
    assert [row for row in rows if "".join(row).replace(" ", "") not in text] == []


@pytest.mark.parametrize("much", [False, True])
@pytest.mark.parametrize("private", [True, False])
def test_what_is_signed_is_on_the_first_sheet(make: Make, tmp_path: Path, private: bool, much: bool) -> None:
    """Of eight sites, with an approval that is filled in; also of a run with all that a sheet can have."""
    names = [f"hospital{' of the great city in the north' if much else ''} {number}" for number in range(8)]
    kind: dict[str, Any] = {"status": "failed"} if much else {}
    folder = served(
        make(clients=names, private=private, signed=[signed(statement([name])) for name in names], **kind)
    )
    if much:
        ended(folder, "the disk of the server was full, and nobody was there " * 3)
        if private:
            opened(folder, masked=True)
    answer = "an answer of several words, as people give it "
    fields = ("purpose", "approver", "operator", "recipients", "retention", "legal_basis")
    write_approval(folder, date="2026-01-02", **dict.fromkeys(fields, answer))
    page, printed = tmp_path / "report.html", tmp_path / "report.pdf"
    page.write_text(render_page(folder))
    browse(tmp_path, "--no-pdf-header-footer", f"--print-to-pdf={printed}", page.as_uri())
    sheets, digest = printed_text(printed, "-layout"), fingerprint(page_digest(folder))
    (headline,) = re.findall('<p class="headline">(.*?)</p>', page.read_text(), re.DOTALL)
    first = sheets[0].replace(" ", "")
    for words in (html.unescape(headline), "is signed for 8 of 8 clients", digest, "Signature", "2026-01-02"):
        assert "".join(words.split()) in first
    assert sheets[0].count("name date signature") == 8
    assert [number for number, sheet in enumerate(sheets[:-1], 1) if len(sheet) < 1000] == []
    # what a system calls its own font may be a wide one
    paper = page.read_text().partition("@media print")[2]
    assert 'body { font-family: "Liberation Sans", Arial, Helvetica, sans-serif;' in paper


def test_no_caption_or_head_is_alone_at_the_foot_of_a_sheet(make: Make, tmp_path: Path) -> None:
    """A table at each height of a sheet."""
    whole = render_page(make(clients=["a", "b", "c", "a site of a night in May"]))
    start, end = whole.index("<main"), whole.index("</main>")
    (table,) = re.findall(r'<div class="scroll[^>]*aria-label="What each client.*?</div>', whole, re.DOTALL)
    tall = [
        f'<div style="height: {height}mm"></div>{table}<hr style="break-after: page">'
        for height in range(200, 265, 3)
    ]
    page, printed = tmp_path / "report.html", tmp_path / "report.pdf"
    page.write_text(f"{whole[:start]}<main>{''.join(tall)}{whole[end:]}")
    browse(tmp_path, "--no-pdf-header-footer", f"--print-to-pdf={printed}", page.as_uri())
    sheets = printed_text(printed, "-layout")
    assert len(sheets) > len(tall)
    assert sum(sheet.count("What each client") for sheet in sheets) == len(tall)
    assert [sheet for sheet in sheets if "What each client" in sheet and "trained" not in sheet] == []
    assert sum(sheet.count("trained") for sheet in sheets) == 4 * len(tall)


def numbers_of(one: Round) -> list[str]:
    return [*(measured(value) for value in one.report.metrics.values()), measured(one.report.loss)]


def printed_text(file: Path, order: str = "-raw") -> list[str]:
    """Of each sheet, spaces made single."""
    if shutil.which("pdftotext") is None:
        pytest.skip("nothing reads a PDF on this machine: apt-get install poppler-utils")
    found = subprocess.run(["pdftotext", order, str(file), "-"], capture_output=True, text=True, check=True)
    return [" ".join(sheet.split()) for sheet in found.stdout.split("\f") if sheet.strip()]


def test_the_browsers_own_header_with_the_place_of_the_file_is_not_printed(
    make: Make, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    page.write_text(render_page(make()))
    found = []
    for name, options in (("plain", ["--no-pdf-header-footer"]), ("header", [])):
        printed = tmp_path / f"{name}.pdf"
        browse(tmp_path, *options, f"--print-to-pdf={printed}", page.as_uri())
        found.append(re.sub(rb"/(Creation|Mod)Date \([^)]*\)", b"", printed.read_bytes()))
    assert len(found[0]) == len(found[1])
