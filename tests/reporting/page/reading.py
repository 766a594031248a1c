"""A page as a reader's program sees it: its tags, in order, with the text within each."""

from __future__ import annotations

from html.parser import HTMLParser

from fl_dp.reporting.page.render import render_page
from fl_dp.reporting.run_folder import RunFolder

_EMPTY = {"meta", "path", "use", "rect", "br", "link"}


class Page(HTMLParser):
    """tags: (name, attributes) in their order; text: all of it that is shown; open: tags never closed."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self._text: list[str] = []
        self._told: list[str] = []
        self.feed(html)
        self.close()

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._text).split())

    @property
    def told(self) -> str:
        """The text outside of tables and pictures."""
        return " ".join(" ".join(self._told).split())

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag in _EMPTY:
            return
        assert [tag] == self.open[-1:], f"</{tag}> closes nothing"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self._text.append(data)
            self._told += [] if {"table", "svg"} & set(self.open) else [data]


def page_of(folder: RunFolder) -> Page:
    return Page(render_page(folder))
