"""The figure: well-formed SVG, a point for each report, claimed above found."""

from xml.etree import ElementTree

from fl_dp.audit.figure import draw
from fl_dp.audit.one_run import AuditReport


def _report(noise_multiplier, claimed, found):
    return AuditReport(claimed, found, 1e-5, 0.95, 1000, 100, 80, 0.1, noise_multiplier, 10, "pld")


def _heights(svg):
    circles = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}circle")
    return [(float(one.get("cx")), float(one.get("cy"))) for one in circles]


def test_a_point_for_each_report_and_the_claim_above():
    svg = draw([_report(2.0, 2.0, 0.9), _report(0.5, 10.0, 4.0), _report(1.0, 4.0, 2.0)])
    points = _heights(svg)
    claimed, found = points[:3], points[3:]
    assert [x for x, _ in claimed] == [x for x, _ in found] == sorted(x for x, _ in claimed)
    assert all(high < low for (_, high), (_, low) in zip(claimed, found, strict=True))  # y downwards
    assert claimed[1][0] - claimed[0][0] == claimed[2][0] - claimed[1][0]  # logarithmic


def test_one_report_is_a_figure_too():
    assert len(_heights(draw([_report(1.0, 3.0, 0.0)]))) == 2
