"""Contrast, by the rules of WCAG 2.1: 4.5 for text, 3 for lines of figures; in both themes."""

import re
from pathlib import Path

import pytest

import fl_dp.reporting.page

CSS = (Path(fl_dp.reporting.page.__file__).parent / "templates" / "style.css").read_text()
LIGHT, DARK = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in CSS.split("@media", 2)[:2])
PAIRS = [
    *((text, ground, 4.5) for text in ("ink", "soft", "link") for ground in ("back", "panel")),
    ("on-alarm", "alarm", 4.5),
    *((f"line{number}", "back", 3.0) for number in range(6)),
]


def brightness(color: str) -> float:
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_contrast(theme: dict[str, str]) -> None:
    for text, ground, least in PAIRS:
        low, high = sorted(brightness(theme[name]) for name in (text, ground))
        assert (high + 0.05) / (low + 0.05) >= least, (text, ground)


def test_both_themes_have_every_color() -> None:
    assert LIGHT.keys() == DARK.keys() >= {"ink", "grid", "back", "line5"}
