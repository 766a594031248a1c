import pytest

from fl_dp.errors import ConfigError
from fl_dp.reporting.page.approval import Approval, approval_file, read_approval, write_approval

from .conftest import Make


def test_what_is_not_given_stays_and_a_file_of_few_keys_gets_the_others(make: Make) -> None:
    folder = make()
    assert read_approval(folder) == Approval()
    approval_file(folder).write_text('purpose = "Triage"\n')
    assert read_approval(folder) == Approval("Triage")
    write_approval(folder, legal_basis="consent", date="1 May")
    write_approval(folder, approver='Dr. "N"\n= Ng')
    assert read_approval(folder) == Approval("Triage", 'Dr. "N" = Ng', "1 May", legal_basis="consent")
    write_approval(folder, date="")
    assert read_approval(folder).date == ""
    text = approval_file(folder).read_text()
    assert 'legal-basis = "consent"' in text
    assert 'recipients = ""' in text
    with pytest.raises(TypeError, match="reason"):
        write_approval(folder, reason="x")


@pytest.mark.parametrize(
    "text", ["purpose = 3", "legal_basis = 'x'", 'other = "x"', "[purpose]", "purpose ="]
)
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
