"""A figure of claimed against found epsilon over noise multipliers, as SVG."""

import math
from collections.abc import Callable, Sequence
from html import escape

from fl_dp.audit.one_run import AuditReport

_WIDTH, _HEIGHT = 640, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 620, 40, 340  # the plotted area in pixels, y downwards
_CLAIMED, _FOUND = "#1f5fa8", "#c2571a"
_STEPS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)  # distances between ticks
_MOST_TICKS = 8


def draw(reports: Sequence[AuditReport]) -> str:
    """An SVG document; `reports` holds at least one. The axis of noise multipliers is logarithmic."""
    reports = sorted(reports, key=lambda report: report.noise_multiplier)
    x = _scale([math.log(report.noise_multiplier) for report in reports], _LEFT + 30, _RIGHT - 30)
    top = max(max(report.claimed, report.found) for report in reports)
    y = _scale([0.0, top * 1.05], _BOTTOM, _TOP)
    places = [(x(math.log(report.noise_multiplier)), report) for report in reports]
    first = reports[0]
    title = (
        f"{first.canaries} canaries, {first.steps} steps at sample rate {first.sample_rate:.3g}, "
        f"delta {first.delta:g}"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="13" fill="#222">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        _text((_LEFT + _RIGHT) / 2, 20, title),
        *_ticks(y, top),
        *(_text(place, _BOTTOM + 20, f"{report.noise_multiplier:g}") for place, report in places),
        _text((_LEFT + _RIGHT) / 2, _BOTTOM + 42, "noise multiplier"),
        *_line([(place, y(report.claimed)) for place, report in places], _CLAIMED),
        *_line([(place, y(report.found)) for place, report in places], _FOUND),
        _text(_RIGHT, _TOP + 12, "epsilon that the ledger claims", "end", _CLAIMED),
        _text(_RIGHT, _TOP + 30, f"found at {first.confidence:.0%} confidence", "end", _FOUND),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _scale(values: Sequence[float], start: float, end: float) -> Callable[[float], float]:
    """The linear map of the range of `values` onto start..end; onto the middle if all are equal."""
    low, high = min(values), max(values)
    if high == low:
        return lambda _: (start + end) / 2
    return lambda value: start + (end - start) * (value - low) / (high - low)


def _ticks(y: Callable[[float], float], top: float) -> list[str]:
    step = next((step for step in _STEPS if top / step <= _MOST_TICKS), top)
    values = [step * i for i in range(int(top / step) + 1)]
    lines = [
        f'<line x1="{_LEFT}" y1="{y(value):.1f}" x2="{_RIGHT}" y2="{y(value):.1f}" stroke="#ddd"/>'
        for value in values
    ]
    return lines + [_text(_LEFT - 8, y(value) + 4, f"{value:g}", "end") for value in values]


def _line(points: Sequence[tuple[float, float]], colour: str) -> list[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in points]
    return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>', *dots]


def _text(x: float, y: float, text: str, anchor: str = "middle", colour: str = "#222") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
