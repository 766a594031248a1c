"""Lines of documents end at 120 characters, so that a diff can be read; tables and code may be longer."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = ("scale", "strategies", "privacy", "operating", "architecture", "verify", "running")
FILES = [
    *(ROOT / "docs" / f"{name}.md" for name in NAMED),
    *sorted(ROOT.glob("examples/*/README.md")),
    ROOT / "deploy/README.md",
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_lines_end_where_they_can_be_read(path):
    fenced, long = False, []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        fenced ^= line.lstrip().startswith("```")
        free = fenced or line.startswith(("|", "    ", "<!--"))
        if len(line) > 120 and not free:
            long.append(number)
    assert not long
