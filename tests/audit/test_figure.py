"""The figure: well-formed SVG, a point for each report, claimed above found."""

from xml.etree import ElementTree

import pytest

from fl_dp.audit.figure import draw
from fl_dp.audit.one_run import AuditReport


def _report(noise_multiplier, claimed, found):
    return AuditReport(
        claimed, found, found, found / 2, 1e-5, 0.95, 1000, 100, 80, 0.1, noise_multiplier, 10, "pld"
    )


NAMESPACE = "{http://www.w3.org/2000/svg}"


def _points(svg):
    circles = ElementTree.fromstring(svg).iter(f"{NAMESPACE}circle")
    return [(float(one.get("cx")), float(one.get("cy"))) for one in circles]


def test_a_point_for_each_report_and_the_claim_above():
    svg = draw([_report(2.0, 2.0, 0.9), _report(0.5, 10.0, 4.0), _report(1.0, 4.0, 2.0)])
    points = _points(svg)
    claimed, found = points[:3], points[3:]
    assert [x for x, _ in claimed] == [x for x, _ in found] == sorted(x for x, _ in claimed)
    assert all(high < low for (_, high), (_, low) in zip(claimed, found, strict=True))  # y downwards
    assert claimed[1][0] - claimed[0][0] == claimed[2][0] - claimed[1][0]  # logarithmic


@pytest.mark.parametrize("noise_multipliers", [(1.0,), (0.5, 1.0, 4.0)])
def test_everything_is_drawn_inside_the_figure_and_titles_stand_in_the_middle(noise_multipliers):
    svg = ElementTree.fromstring(draw([_report(noise, 3.0, 0.0) for noise in noise_multipliers]))
    _, _, width, height = map(float, svg.get("viewBox").split())
    drawn = (("circle", "cx", "cy"), ("text", "x", "y"), ("line", "x1", "y1"), ("line", "x2", "y2"))
    places = [
        (float(one.get(x)), float(one.get(y))) for kind, x, y in drawn for one in svg.iter(NAMESPACE + kind)
    ]
    assert all(0 < x < width and 0 < y < height for x, y in places)
    centred = [text for text in svg.iter(f"{NAMESPACE}text") if text.get("text-anchor") == "middle"]
    middle = {float(text.get("x")) for text in (centred[0], centred[-1])}
    assert middle == {(60 + 620) / 2}
    if len(noise_multipliers) == 1:
        assert {x for x, _ in _points(ElementTree.tostring(svg))} == middle
