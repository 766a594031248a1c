import datetime

import pytest

from fl_dp.errors import ConfigError
from fl_dp.reporting.page.approval import Approval, read_approval, write_approval
from fl_dp.reporting.page.render import render_page

from .conftest import Make
from .reading import Page


def test_what_is_not_given_stays_and_a_file_of_few_keys_gets_the_others(make: Make) -> None:
    folder = make()
    assert read_approval(folder) == Approval()
    folder.approval.write_text('purpose = "Triage"\n')
    assert read_approval(folder) == Approval("Triage")
    write_approval(folder, legal_basis="consent", date="2024-02-29")
    write_approval(folder, approver='Dr. "N"\n= Ng')
    assert read_approval(folder) == Approval("Triage", 'Dr. "N" = Ng', "2024-02-29", legal_basis="consent")
    write_approval(folder, date="")
    assert read_approval(folder).date == ""
    text = folder.approval.read_text()
    assert 'legal-basis = "consent"' in text
    assert 'recipients = ""' in text
    with pytest.raises(TypeError, match="reason"):
        write_approval(folder, reason="x")


@pytest.mark.parametrize(
    "text", ["purpose = 3", "legal_basis = 'x'", 'other = "x"', "[purpose]", "purpose ="]
)
def test_another_form_is_refused(make: Make, text: str) -> None:
    folder = make()
    folder.approval.write_text(text)
    with pytest.raises(ConfigError, match=r"approval\.toml"):
        read_approval(folder)


def test_too_long_a_text_is_refused_and_nothing_is_written(make: Make) -> None:
    folder = make()
    with pytest.raises(ConfigError, match="--purpose"):
        write_approval(folder, purpose="x" * 2001)
    assert not folder.approval.exists()


@pytest.mark.parametrize(
    "text",
    ["31.02.2025", "2025-02-29", "2025-13-01", "20250502", "2025-W18-5", "2025-5-2", "1 May", " 2025-05-02"],
)
def test_only_a_day_of_the_calendar_is_printed_above_a_signature(make: Make, text: str) -> None:
    folder = make()
    with pytest.raises(ConfigError, match=f"--date *{text.strip()}: .*year-month-day"):
        write_approval(folder, date=text)
    assert not folder.approval.exists()
    folder.approval.write_text(f'date = "{text}"\n')  # by hand, or by an older fl_dp
    assert f"NOT A DAY OF THE CALENDAR: {text.strip()}" in " ".join(Page(render_page(folder)).text.split())


def test_no_day_to_come_is_printed_above_a_signature(make: Make) -> None:
    folder, today = make(), datetime.datetime.now(datetime.UTC).date()
    write_approval(folder, date=str(today + datetime.timedelta(days=1)))  # east of here it has come
    with pytest.raises(ConfigError, match="lies in the future"):
        write_approval(folder, date=str(today + datetime.timedelta(days=3)))
