"""What is to be filled in, and a line for each site."""

import pytest

from fl_dp.reporting.page.approval import write_approval
from fl_dp.reporting.page.read import read_run
from fl_dp.reporting.page.render import approval_lines, site_lines

from .conftest import Make, statement
from .runs import launched, served


def test_each_site_has_a_line_whether_it_has_stated_anything_or_not(make: Make) -> None:
    said = [statement(["north", "south"]), statement(["of another run"], run="18")]
    run = read_run(served(make(clients=["north", "south", "east"], signed=said)))
    assert site_lines(run) == ("For the site of north, south", "For the site of east")
    many = read_run(served(make("many", clients=[str(number) for number in range(30)], signed=[])))
    assert len(site_lines(many)) == 21
    assert site_lines(many)[-1] == "For 10 more sites, on a separate sheet"


@pytest.mark.parametrize("engine", ["", "ray"])
def test_a_launch_that_started_or_played_all_clients_has_no_sites_that_could_sign(
    make: Make, engine: str
) -> None:
    assert site_lines(read_run(launched(make(), engine))) == ()


@pytest.mark.parametrize(
    ("ended", "date", "before"),
    [
        ("2026-01-05T11:59:00+00:00", "2026-01-03", True),
        ("2026-01-05T11:59:00+00:00", "2026-01-04", False),  # west of Greenwich it still was
        ("2026-01-05T12:00:00+00:00", "2026-01-04", True),
        ("2026-01-05T12:00:00+00:00", "2026-01-05", False),
        ("", "2026-01-01", False),
        ("some day", "2026-01-01", False),
        ("0001-01-01T00:00:00+00:00", "2026-01-01", False),
    ],
)
def test_no_result_is_approved_before_the_run_has_ended(
    make: Make, ended: str, date: str, before: bool
) -> None:
    folder = make(started="2026-01-01T00:00:00+00:00", ended=ended)
    write_approval(folder, date=date)
    said = f"{date}, before the run ended on 2026-01-05: it approves no result"
    assert dict(approval_lines(read_run(folder)))["Date (year-month-day)"] == (said if before else date)


def test_what_approval_toml_says_is_beside_its_name(make: Make) -> None:
    folder = make()
    (folder.path / "approval.toml").write_text('legal-basis = "Art. 9(2)(j)"\noperator = "A and B"\n')
    lines = dict(approval_lines(read_run(folder)))
    assert lines["Legal basis"] == "Art. 9(2)(j)"
    assert lines["Operated by (server and sites)"] == "A and B"
    assert lines["Who gets the model"] == lines["Kept until, or for how long"] == lines["Purpose"] == ""
