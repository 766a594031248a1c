"""Axes, legends, titles and texts are put around a figure in one place."""

import re
from pathlib import Path

import pytest

FIGURES = Path(__file__).parents[4] / "fl_dp" / "reporting" / "page" / "figures"


@pytest.mark.parametrize("file", sorted(FIGURES.glob("*.py")), ids=lambda file: file.stem)
def test_every_figure_has_its_frame_from_the_canvas(file: Path) -> None:
    if file.stem == "canvas":
        return
    text = file.read_text()
    assert not re.search(r"\bFigure\(|\.legend\(|set_xlabel|set_major_locator|import matplotlib", text)
    assert file.stem == "__init__" or "framed(" in text
