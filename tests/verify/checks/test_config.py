"""Settings: their digest, their twin, and what the run made of them."""

from typing import Any

import pytest
from verify.made_run import MadeRun

Json = dict[str, Any]


def what_differs(run: MadeRun) -> str:
    return " | ".join(f"{one.what} ({one.where})" for one in run.differs().get("config", []))


def replaced(run: MadeRun, name: str, before: str, after: str) -> None:
    path = getattr(run.files, name)
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))


def test_changed_settings_have_another_digest(made_run: MadeRun) -> None:
    replaced(made_run, "config", "rounds = 3", "rounds = 3 ")
    assert what_differs(made_run) == "config.toml has another digest than summary.json says (config.toml)"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("rounds = 3", "rounds = 30", "rounds is another one"),
        ("max-grad-norm = 1.0", "max-grad-norm = 2.0", "max-grad-norm is another one"),
        ("clients-per-person = 1", "clients-per-person = 2", "clients-per-person is another one"),
        ('privacy = "on"', 'privacy = "off"', "privacy is another one"),
        ('noise-multiplier = "auto"', "noise-multiplier = 3.0", "the config asks for another"),
        ("expected-batch-size = 64", "expected-batch-size = 65", "batch over public size is 0.101562"),
    ],
)
def test_a_forger_with_all_digests_still_contradicts_the_run(
    before: str, after: str, words: str, made_run: MadeRun
) -> None:
    replaced(made_run, "config", before, after)
    made_run.digests_anew()
    assert words in what_differs(made_run)


def test_resolved_may_differ_only_where_auto_was_asked_for(made_run: MadeRun) -> None:
    replaced(made_run, "resolved", "noise-multiplier = 1.5", "noise-multiplier = 1.7")
    assert what_differs(made_run) == ""  # it was auto; each client's charges are what counts
    replaced(made_run, "resolved", "momentum = 0.0", "momentum = 0.5")
    assert "momentum is another one than in config.toml (resolved.toml)" in what_differs(made_run)


def test_a_smaller_rate_does_not_fit_the_public_size(made_run: MadeRun) -> None:
    """A larger public size makes a lower rate, and a lower epsilon."""
    made_run.change_summary(lambda summary: summary["clients"]["north"].update(public_size=64000))
    assert "batch over public size is 0.001" in what_differs(made_run)


def test_a_client_of_fewer_records_than_a_batch_draws_all_of_them(made_run: MadeRun) -> None:
    made_run.change_summary(
        lambda summary: summary["clients"]["north"].update(public_size=32, sample_rate=1.0)
    )
    assert "batch over public size" not in what_differs(made_run)


@pytest.mark.parametrize("name", ["config", "resolved"])
def test_a_setting_that_one_of_the_two_lacks_is_another_one(name: str, made_run: MadeRun) -> None:
    replaced(made_run, name, "momentum = 0.0\n", "")
    made_run.digests_anew()
    assert "momentum is another one than in config.toml" in what_differs(made_run)
