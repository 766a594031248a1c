"""Which files of the repository are pages of the site, and what their links become there.

A page keeps its place in the repository, and its links are relative to that. In the site README.md is the
first page, and the READMEs of folders are pages of their own. A link to a file that is no page, such as a
source file, becomes plain text: where the repository lies on the network is not known. A fence that names
the machine of its commands loses that name: MkDocs takes no second word, and would lose the page's headings.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).parents[2]
_DOCS = "docs"
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#]*)(?P<anchor>#[^)\s]*)?\)")
_NAMED_FENCE = re.compile(r"^(```[a-z]+) [a-z-]+$", re.MULTILINE)
_ELSEWHERE = re.compile(r"[a-z]+:")


def outside_docs(root: Path = ROOT) -> dict[str, str]:
    """Path in the repository -> place in the site, of all pages that do not lie in docs/."""
    pages = {"README.md": "index.md", "benchmarks/README.md": "benchmarks.md"}
    pages |= {"examples/README.md": "examples/index.md", "deploy/README.md": "deploy.md"}
    pages |= {name: name.lower() for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")}
    examples = sorted((root / "examples").glob("*/README.md"))
    pages |= {
        f"examples/{file.parent.name}/README.md": f"examples/{file.parent.name}.md" for file in examples
    }
    return {path: place for path, place in pages.items() if (root / path).exists()}


def all_pages(root: Path = ROOT) -> dict[str, str]:
    """The same of all pages."""
    in_docs = {
        file.relative_to(root).as_posix(): file.relative_to(root / _DOCS).as_posix()
        for file in sorted((root / _DOCS).rglob("*"))
        if file.is_file() and file.suffix in {".md", ".svg", ".png"}
    }
    return in_docs | outside_docs(root)


def as_page_of_the_site(text: str, path: str, pages: Mapping[str, str], root: Path = ROOT) -> str:
    """text: the page at `path` in the repository. Its links become those of the site, its fences plain."""

    def link(found: re.Match[str]) -> str:
        target = found["target"]
        if not target or _ELSEWHERE.match(target):
            return found[0]
        there = os.path.normpath(PurePosixPath(path).parent / target)
        if there in pages:
            place = os.path.relpath(pages[there], PurePosixPath(pages[path]).parent)
            return f"{found['image']}[{found['text']}]({place}{found['anchor'] or ''})"
        if (root / there).exists() and not found["image"]:
            return found["text"]
        return found[0]  # the build complains

    return _LINK.sub(link, _NAMED_FENCE.sub(r"\1", text))


def fill(navigation: list[Any], title: str, places: Sequence[str]) -> None:
    """Put the places below the empty section `title` of MkDocs' navigation, wherever that stands."""
    for entry in navigation:
        for name, below in entry.items() if isinstance(entry, dict) else ():
            if name == title:
                below.extend(places)
            elif isinstance(below, list):
                fill(below, title, places)
