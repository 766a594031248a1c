"""Figures as inline SVG, in the page's colours, light or dark. No text is taken for a formula.

Lines also differ by dashes and markers: colour alone never carries information.
"""

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Sheet

from fl_dp.clean_text import clean

T = TypeVar("T")
INK, GRID, BACK = "#000001", "#000002", "#000003"  # placeholders for the page's own colours
LINES = tuple(f"#00001{digit}" for digit in range(6))
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
_VARIABLES = {INK: "var(--ink)", GRID: "var(--grid)", BACK: "var(--back)"} | {
    color: f"var(--line{number})" for number, color in enumerate(LINES)
}
MOST_POINTS = 300  # of a line: more would not be visible
_MOST_MARKED = 30  # points of a line that have a marker
_WIDTH = 4.8  # inches: a phone's width at full size
_XLINK = "http://www.w3.org/1999/xlink"
PLACE = (0.72, 0.48, 3.95, 2.2)  # of the axes, in inches: left, bottom, width, height
_COLUMNS = 2  # of a legend
_SHORT = 20  # characters of labels that fit a legend of two columns
_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",  # the browser's own text, which can be read, searched and scaled
    "svg.hashsalt": "fl_dp",
    "text.parse_math": False,  # a client may be named $\frac$
    "axes.formatter.use_mathtext": False,
    "axes.unicode_minus": False,
    "font.family": ["DejaVu Sans"],  # comes with matplotlib, so that every machine measures the same
    "font.size": 9.0,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.edgecolor": INK,
    "grid.color": GRID,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "hatch.color": BACK,
    "legend.facecolor": "none",
    "legend.edgecolor": GRID,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "path.simplify": False,
}


@dataclass(frozen=True, slots=True)
class Figure:
    """key: prefix of its ids. text: a description for readers who cannot see it."""

    key: str
    title: str
    text: str
    svg: Markup


@contextmanager
def drawing() -> Iterator[None]:
    """Draw in the page's style, whatever the user's own matplotlib settings are."""
    with warnings.catch_warnings(), matplotlib.rc_context():
        # the browser draws the text, in any script
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        matplotlib.rcdefaults()
        settings: Any = matplotlib.rcParams  # its stub lists every key
        settings.update(_SETTINGS)
        yield


def new_axes(
    across: str,
    up: str,
    labels: int = 0,
    columns: int = _COLUMNS,
    place: tuple[float, float, float, float] = PLACE,
) -> Axes:
    """Empty axes of a new figure; call it inside `drawing`.

    across, up: axis labels. labels, columns: number of legend entries above, and of their columns
    (`columns_of`). place: see `PLACE`.
    """
    # fixed margins: measuring all text first takes as long as the drawing itself
    top = 0.1 + 0.17 * -(-labels // columns)  # inches
    left, bottom, width, height = place
    whole = bottom + height + top
    within = (left / _WIDTH, bottom / whole, width / _WIDTH, height / whole)
    axes = Sheet(figsize=(_WIDTH, whole)).add_axes(within)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.grid(True, linewidth=0.6)
    axes.set_axisbelow(True)
    return axes


def style(number: int, points: int) -> dict[str, Any]:
    """The style of line `number`: it differs from others also without colours."""
    return {
        "color": LINES[number % len(LINES)],
        "linestyle": DASHES[number % len(DASHES)],
        "marker": MARKERS[number % len(MARKERS)],
        "markersize": 4.5,
        "markevery": max(1, points // _MOST_MARKED),
        "linewidth": 1.6,
    }


def short(name: str, longest: int) -> str:
    """The name, cut to so many characters. matplotlib leaves out labels that begin with an underscore."""
    cut = clean(name, longest)
    return f" {cut}" if cut.startswith("_") else cut


def columns_of(labels: Sequence[str]) -> int:
    """Number of legend columns for which no label is cut at the figure's edge."""
    return 1 if any(len(one) > _SHORT for one in labels) else _COLUMNS


def thinned(found: Sequence[T], most: int = MOST_POINTS) -> Sequence[T]:
    """At most `most` of the points, at equal distances, and the last point."""
    step = -(-len(found) // most)
    return found if step <= 1 else [*found[:-1:step], found[-1]]


def framed(axes: Axes, key: str, title: str, text: str) -> Figure:
    """The figure of these axes, with a legend if something has a label; see `Figure`."""
    if labels := axes.get_legend_handles_labels()[1]:
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(-0.12, 1.0),
            ncols=columns_of(labels),
            frameon=False,
            fontsize=8.0,
            handlelength=2.6,
            borderaxespad=0.2,
            columnspacing=1.2,
        )
    return Figure(key, title, text, _as_svg(axes, key))


def _as_svg(axes: Axes, key: str) -> Markup:
    """The figure of these axes as an element of the page, named by its caption and text."""
    sheet: Any = axes.figure
    file = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    canvas: Any = FigureCanvasSVG(sheet)
    canvas.print_svg(file, metadata=nothing)
    width, height = sheet.get_figwidth() * 72, sheet.get_figheight() * 72
    return Markup(  # its texts are escaped by matplotlib
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="{_XLINK}" role="img" '
        f'viewBox="0 0 {width:g} {height:g}" aria-labelledby="{key}-title {key}-text">'
        f"{_body(file.getvalue(), key)}</svg>"
    )


def _body(svg: str, key: str) -> str:
    """The SVG's inner markup, with prefixed ids and the page's colours."""
    start = svg.index(">", svg.index("<svg")) + 1
    body = svg[start : svg.rindex("</svg>")]
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", body, flags=re.DOTALL)
    used = set(re.findall(r"(?:url\(|href=\")#([\w-]+)", body))

    def own(found: re.Match[str]) -> str:
        """Prefix ids that are referred to; drop other ids, and repeats, which matplotlib writes."""
        if found[1] not in used:
            return ""
        used.remove(found[1])
        return f' id="{key}-{found[1]}"'

    body = re.sub(r' id="([^"]*)"', own, body)
    body = re.sub(r"(url\(|href=\")#([\w-]+)", rf"\g<1>#{key}-\g<2>", body)
    body = re.sub(r"\n\s*", "\n", body)
    colors = re.compile("|".join(_VARIABLES))
    # in tags, never in text
    return re.sub(r"<[^>]*>", lambda tag: colors.sub(lambda found: _VARIABLES[found[0]], tag[0]), body)
