"""report.html: drawn again from the files and compared byte for byte; with other versions its words only."""

import html
import re
from html.parser import HTMLParser
from itertools import zip_longest
from typing import Any

from fl_dp.clean_text import clean
from fl_dp.errors import ConfigError
from fl_dp.kits.keys import fingerprint
from fl_dp.reporting.promise import UNSIGNED
from fl_dp.reporting.refuted import ADVICE, without_refutation
from fl_dp.verify.check import Check, Evidence
from fl_dp.verify.findings import Found
from fl_dp.verify.reading import check_bounds, is_there, read_bytes

_MOST_PAGE = 2**26  # bytes; one of 5,000 clients has some 3 million
_DRAWN_BY = re.compile(r"Drawn by ([^<]{1,200}?)\.\s")
_CHANGED = "the page was changed by hand, or is of other files: what it says is not what this folder says"

_OF_IT = f"of it no site has signed {UNSIGNED}"


def _run(evidence: Evidence, found: Found) -> None:
    _check_plain(evidence)
    _check_digest(evidence, found)
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
    if ADVICE in again and ADVICE not in page:
        again = without_refutation(again)
        found.note(
            "report.html was drawn before its epsilon was refuted", means="draw it again: fl-dp report"
        )
    if again == page:
        found.agrees(f"report.html is, byte by byte, what the files of this folder make; {_OF_IT}")
        return
    by = _DRAWN_BY.search(page)
    if by is None or html.unescape(by.group(1)) == installed:
        found.differs(
            f"report.html is not what the files make: {_first_other(page, again)}", "report.html", _CHANGED
        )
    elif _words(_undrawn(page)) != _words(_undrawn(again)):
        found.differs(
            f"the words are others: {_first_other(_undrawn(page), _undrawn(again))}", "report.html", _CHANGED
        )
    else:
        found.agrees(f"every word of report.html is what the files of this folder make; {_OF_IT}")
        found.note(
            f"its figures were not compared: drawn by {clean(by.group(1))}, and here are {installed}",
            means="install these versions, or draw it again: fl-dp report",
        )


def _check_digest(evidence: Evidence, found: Found) -> None:
    """What stands on paper is compared with these files by one number; a person, or `--digest`, compares."""
    from fl_dp.reporting.page.digest import page_digest

    digest = page_digest(evidence.folder)
    if not evidence.digest:
        found.note(
            f"the digest of these files is {fingerprint(digest)}",
            means="a page that was printed of them shows the same; fl-dp verify --digest HEX compares",
        )
    elif evidence.digest == digest:
        found.agrees(f"the digest that was given is that of these files: {fingerprint(digest)}")
    else:
        found.differs(
            f"the digest of these files is {fingerprint(digest)}, and another one was given", "",
            "the page that shows it is of other files, or one was changed since, the approval included",
        )  # fmt: skip


def _installed() -> str:
    from fl_dp.reporting.page.versions import drawn_by

    return ", ".join(f"{name} {version}" for name, version in drawn_by())


def _check_plain(evidence: Evidence) -> None:
    """ConfigError unless all that a page is drawn from are plain files, and in bounds."""
    from fl_dp.reporting.page.digest import digested_files

    for path in digested_files(evidence.folder):
        if is_there(path):
            check_bounds(path, by_line=path == evidence.folder.rounds)


def _drawn_again(evidence: Evidence) -> str:
    """ConfigError where the files make no page, whatever a damaged file makes a template raise."""
    from fl_dp.reporting.page.render import render_page

    try:
        return render_page([evidence.folder])
    except ConfigError:
        raise
    except Exception as error:  # of templates and figures, over values that nobody foresaw
        raise ConfigError(f"the files make no page ({type(error).__name__}).") from None


def _first_other(page: str, again: str) -> str:
    """The first words that differ, of both."""
    for one, other in zip_longest(_words(page), _words(again), fillvalue=""):
        if one != other:
            return f"it says '{clean(one)}', the files say '{clean(other)}'"
    return "its words are the same, its figures or its form are not"


def _words(page: str) -> list[str]:
    """The pieces of text that a reader sees, without figures; title and footers, with the digest, last."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    return [*reader.pieces, *reader.last]


def _undrawn(page: str) -> str:
    """Without the versions that drew it."""
    return _DRAWN_BY.sub("", page, count=1)


class _Reader(HTMLParser):
    """pieces: of text, spaces made single. last: the title, and the style, which has the sheets' footers."""

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
