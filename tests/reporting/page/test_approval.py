import pytest

from fl_dp.errors import ConfigError
from fl_dp.reporting.page.approval import Approval, approval_file, read_approval, write_approval

from .conftest import Make


def test_what_is_not_given_stays(make: Make) -> None:
    folder = make()
    assert read_approval(folder) == Approval()
    write_approval(folder, purpose="Triage", date="1 May")
    write_approval(folder, approver='Dr. "N"\n= Ng')
    assert read_approval(folder) == Approval("Triage", 'Dr. "N" = Ng', "1 May")
    write_approval(folder, date="")
    assert read_approval(folder).date == ""


@pytest.mark.parametrize("text", ["purpose = 3", 'other = "x"', "[purpose]", "purpose ="])
def test_another_form_is_refused(make: Make, text: str) -> None:
    folder = make()
    approval_file(folder).write_text(text)
    with pytest.raises(ConfigError, match=r"approval\.toml"):
        read_approval(folder)


def test_too_long_a_text_is_refused_and_nothing_is_written(make: Make) -> None:
    folder = make()
    with pytest.raises(ConfigError, match="--purpose"):
        write_approval(folder, purpose="x" * 2001)
    assert not approval_file(folder).exists()
