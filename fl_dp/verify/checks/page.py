"""report.html: redrawn from the files and compared byte for byte; with other versions, only its words.

Another fl_dp may word the same facts differently. A forger can name any version, so such a page never passes.
"""

import html
import re
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import zip_longest
from typing import Any, TypeVar

from fl_dp.clean_text import clean
from fl_dp.errors import ConfigError
from fl_dp.kits.keys import fingerprint
from fl_dp.reporting.page.about_data import operators_word, other_words
from fl_dp.reporting.page.overview import any_signed
from fl_dp.reporting.page.read import read_run
from fl_dp.reporting.vouched import LISTED, OTHERWISE
from fl_dp.verify.check import Check, Evidence, Found
from fl_dp.verify.reading import check_bounds, is_there, read_bytes

_Made = TypeVar("_Made")
_MOST_PAGE = 2**26  # bytes; the page of 5,000 clients has some 3 million
_DRAWN_BY = re.compile(r"Drawn by ([^<]{1,200}?)\.\s")
_CHANGED = "the page was changed by hand, or is of other files: what it says is not what this folder says"


def _run(evidence: Evidence, found: Found) -> None:
    _check_plain(evidence)
    _check_digest(evidence, found)
    _check_data(evidence, found)
    path = evidence.folder.report
    if not is_there(path):
        found.not_given("report.html", "made by: fl-dp report")
        return
    content = read_bytes(path, _MOST_PAGE)
    try:
        page = content.decode("utf-8")
    except UnicodeDecodeError:
        found.differs("report.html is no text", "report.html", _CHANGED)
        return
    try:
        installed = _installed()
    except ConfigError as error:
        found.not_given("what draws a page", str(error))
        return
    again = _drawn_again(evidence)
    if again == page:
        found.agrees(f"report.html is, byte for byte, what this folder's files make; {_of_it(evidence)}")
        return
    by = _DRAWN_BY.search(page)
    _compare_words(page, again, html.unescape(by.group(1)) if by else installed, installed, evidence, found)


def _compare_words(page: str, again: str, by: str, installed: str, evidence: Evidence, found: Found) -> None:
    """For a page with other bytes. by: the versions that it names; installed: those that are here."""
    if by == installed:
        found.differs(
            f"report.html is not what the files make: {_first_other(page, again)}", "report.html", _CHANGED
        )
    elif _words(_undrawn(page)) == _words(_undrawn(again)):
        found.agrees(f"every word of report.html is what this folder's files make; {_of_it(evidence)}")
        found.note(
            f"its figures were not compared: drawn by {clean(by)}, and here are {installed}",
            means="install these versions, or draw it again: fl-dp report",
        )
    elif _of_fl_dp(by) == _of_fl_dp(installed):
        found.differs(
            f"the words are others: {_first_other(_undrawn(page), _undrawn(again))}", "report.html", _CHANGED
        )
    elif _digest(evidence) not in "".join(_words(page)):
        found.differs("it shows the digest of other files", "report.html", _CHANGED)
    else:
        found.unchecked(
            f"it says that another fl_dp has drawn it ({clean(by)}; here are {installed}), and its words are "
            f"others: {_first_other(_undrawn(page), _undrawn(again))}",
            "report.html",
            "draw it again (fl-dp report DIR --out NEW.html) and compare the two",
        )


def _of_it(evidence: Evidence) -> str:
    """Which parts of a page that agrees are only the word of whoever wrote the folder."""
    if any_signed(_made(lambda: read_run(evidence.folder))):
        return LISTED
    return "no site has signed any of it"


def _of_fl_dp(versions: str) -> set[str]:
    """The versions that decide about words."""
    return {one for one in versions.split(", ") if "fl-dp " in one}


def _check_digest(evidence: Evidence, found: Found) -> None:
    """One number compares what stands on paper with these files; a person, or `--digest`, compares it."""
    digest = _digest(evidence)
    if not evidence.digest:
        found.note(
            f"the digest of these files is {fingerprint(digest)}",
            means="a page printed from them shows the same; fl-dp verify --digest HEX compares",
        )
    elif evidence.digest == digest:
        found.agrees(f"the digest that was given is that of these files: {fingerprint(digest)}")
    else:
        found.differs(
            f"the digest of these files is {fingerprint(digest)}, and another one was given", "",
            "the page that shows it is of other files, or one was changed since, the approval included",
        )  # fmt: skip


def _digest(evidence: Evidence) -> str:
    from fl_dp.reporting.page.digest import page_digest

    return page_digest(evidence.folder)


def _installed() -> str:
    from fl_dp.reporting.provenance import drawn_by

    return ", ".join(f"{name} {version}" for name, version in drawn_by())


def _check_data(evidence: Evidence, found: Found) -> None:
    """The page shows the sites' words first, and marks the operator's; a launch on one machine has only one.

    ConfigError if the files make no page.
    """
    if not is_there(evidence.folder.statements):
        return
    run = _made(lambda: read_run(evidence.folder))
    others = other_words(run)
    if not others:
        return
    what = f"the server's operator calls the data {operators_word(run)}, and sites state: {others}"
    if run.local:
        found.differs(
            what, "config.toml or model.json", "one launch gave server and clients the same settings"
        )
    else:
        found.note(what, means=f"{OTHERWISE}; each site has settings of its own, and its word counts")


def _check_plain(evidence: Evidence) -> None:
    """Raise ConfigError unless everything that a page is drawn from is a plain file within bounds."""
    from fl_dp.reporting.page.digest import digested_files

    for path in digested_files(evidence.folder):
        if is_there(path):
            check_bounds(path, by_line=path == evidence.folder.rounds)


def _drawn_again(evidence: Evidence) -> str:
    from fl_dp.reporting.page.render import render_page

    return _made(lambda: render_page(evidence.folder))


def _made(make: Callable[[], _Made]) -> _Made:
    """Raise ConfigError if the files make no page, whatever a damaged file makes a template raise."""
    try:
        return make()
    except ConfigError:
        raise
    except Exception as error:  # templates and figures may meet unexpected values
        raise ConfigError(f"the files make no page ({type(error).__name__}).") from None


def _first_other(page: str, again: str) -> str:
    """The first words that differ, from both."""
    for one, other in zip_longest(_words(page), _words(again), fillvalue=""):
        if one != other:
            return f"it says '{clean(one)}', the files say '{clean(other)}'"
    return "its words are the same, its figures or its form are not"


def _words(page: str) -> list[str]:
    """The texts that a reader sees, without figures; title and footers, with the digest, come last."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    return [*reader.pieces, *reader.last]


def _undrawn(page: str) -> str:
    """Without the versions that drew it."""
    return _DRAWN_BY.sub("", page, count=1)


class _Reader(HTMLParser):
    """pieces: of text, whitespace collapsed. last: the title, and the style with the sheets' footers."""

    _HIDDEN = ("svg", "script")
    _LAST = ("title", "style")

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self.last: list[str] = []
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag in (*self._HIDDEN, *self._LAST):
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._inside and tag == self._inside[-1]:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        piece = " ".join(data.split())
        if piece and not self._inside:
            self.pieces.append(piece)
        elif piece and self._inside[-1] in self._LAST and not set(self._HIDDEN) & set(self._inside):
            self.last.append(piece)


CHECK = Check(place=7, run=_run)
