"""Many clients: a page of a few hundred KiB, with no line, row or curve for each of them."""

from fl_dp.reporting.page.render import render_page
from fl_dp.reporting.page.tables import LISTED

from .conftest import Make
from .reading import Page


def test_three_thousand_clients_make_a_small_page(make: Make) -> None:
    folder = make(clients=[f"site {number}" for number in range(3000)], rounds=2, reason="no budget")
    html = render_page(folder)
    page = Page(html)
    assert len(html) < 1_000_000
    assert page.text.count("site 2500") == 0
    assert page.text.count("2,800 more rows are in the run's files") == 3  # who has spent most comes first
    assert "site 2999" in page.text
    assert len(page.all("tr")) < 4 * LISTED + 100
    assert "3000: site 0" in page.text
