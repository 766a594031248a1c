"""Called by MkDocs (mkdocs.yml): adds the pages that do not lie in docs/, and mends links."""

import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # MkDocs loads this file by its path alone

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from scripts.site.pages import ROOT, all_pages, as_page_of_the_site, fill, outside_docs


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    places = sorted(all_pages().values(), key=lambda place: (not place.endswith("index.md"), place))
    for title, folder in (("Examples", "examples/"), ("Decisions", "decisions/")):
        fill(config.nav or [], title, [place for place in places if place.startswith(folder)])
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    pages = all_pages()
    for path, place in outside_docs().items():
        text = (ROOT / path).read_text(encoding="utf-8")
        made = as_page_of_the_site(text, path, pages)
        files.append(File.generated(config, place, content=made))
    files.append(File.generated(config, "commands.md", content=_commands()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    path = f"docs/{page.file.src_uri}"
    return markdown if page.file.generated_by else as_page_of_the_site(markdown, path, all_pages())


def _commands() -> str:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "'click.utils", DeprecationWarning)  # typer's own imports
        from scripts.site.commands import commands_page
    return commands_page()
