"""`make docs`: the site is built without warnings, and its pages load nothing from the network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs.blocks import ROOT

import fl_dp

LOADED = re.compile(
    r'<(?:script|img|iframe|source)[^>]*\ssrc="?([^"\s>]+)'
    r'|<link[^>]*rel="?(?:stylesheet|preload|preconnect|icon)"?[^>]*href="?([^"\s>]+)'
    r'|url\(["\']?((?:https?:)?//[^)"\']+)'
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return folder


@pytest.mark.slow
def test_no_page_loads_anything_from_elsewhere(site):
    found = {
        next(filter(None, match))
        for file in [*site.rglob("*.html"), *site.rglob("*.css")]
        for match in LOADED.findall(file.read_text(encoding="utf-8"))
    }
    assert len(found) > 3
    assert [address for address in found if address.startswith(("http", "//"))] == []


@pytest.mark.slow
def test_every_page_of_the_docs_and_every_name_of_the_package_is_in_it(site):
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).exists()
    api = (site / "api.html").read_text(encoding="utf-8")
    assert [name for name in fl_dp.__all__ if f'id="fl_dp.{name}"' not in api] == []
    assert "fl-dp ledger show" in (site / "commands.html").read_text(encoding="utf-8")
