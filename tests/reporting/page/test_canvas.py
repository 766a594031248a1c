"""SVG of matplotlib's that can stand in a page: no formula, no foreign style, no id twice."""

import re
from xml.etree import ElementTree

import matplotlib
import pytest

from fl_dp.reporting.page.canvas import INK, drawing, framed, new_axes, style, thinned


def drawn(label: str) -> str:
    with drawing():
        axes = new_axes(label, label, 1)
        axes.plot([1, 2], [3, 4], label=label, **style(0, 2))
        return str(framed(axes, "f-x", label, label).svg)


@pytest.mark.parametrize("label", [r"$\frac$", "<b>&\"'", "病院", "$x$", INK])
def test_a_label_is_shown_as_it_is_written(label: str) -> None:
    root = ElementTree.fromstring(drawn(label))
    texts = ["".join(one.itertext()) for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count(label) == 3


def test_it_has_the_pages_colors_and_nothing_of_its_own() -> None:
    svg = drawn("a")
    assert "var(--ink)" in svg
    assert "var(--line0)" in svg
    assert not re.search(r"#0000[01][0-9a-f]", svg)
    assert "<style" not in svg
    assert "<metadata" not in svg
    assert "date" not in svg.lower()


def test_the_users_own_settings_stay_and_change_nothing() -> None:
    plain = drawn("a")
    with matplotlib.rc_context({"font.size": 30.0, "text.parse_math": True, "lines.linewidth": 9.0}):
        assert drawn("a") == plain
        assert matplotlib.rcParams["font.size"] == 30.0


def test_long_lines_are_thinned_to_their_last_point() -> None:
    assert list(thinned(range(10), 20)) == list(range(10))
    few = thinned(range(100_001), 300)
    assert len(few) <= 301
    assert (few[0], few[-1]) == (0, 100_000)


def test_a_figure_has_a_legend_where_something_is_named() -> None:
    with drawing():
        axes = new_axes("a", "b")
        axes.plot([1, 2], [3, 4], **style(0, 2))
        framed(axes, "f-x", "title", "text")
        assert axes.get_legend() is None
        axes.plot([1, 2], [3, 4], label="one", **style(0, 2))
        framed(axes, "f-x", "title", "text")
        assert axes.get_legend() is not None
