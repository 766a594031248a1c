"""Settings: their digest, their twin, and what the run made of them."""

import pytest
from verify.made_run import MadeRun

from fl_dp.verify.check import Outcome


def test_changed_settings_have_another_digest(made_run: MadeRun) -> None:
    path = made_run.files.config
    path.write_text(path.read_text().replace("rounds = 3", "rounds = 3 "))
    assert made_run.words("config") == "config.toml has another digest than summary.json says (config.toml)"


def test_what_is_not_there_agrees_with_nothing(made_run: MadeRun) -> None:
    def agrees() -> list[str]:
        found = made_run.check()["config"].findings
        return [one.what for one in found if one.outcome is Outcome.AGREES]

    keep = "the rounds, resolved.toml, summary and clients agree with config.toml"
    assert agrees() == [f"config.toml has the digest that summary.json names; {keep}"]
    made_run.files.summary.unlink()
    assert agrees() == ["the rounds, resolved.toml agree with config.toml"]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("rounds = 3", "rounds = 30", "rounds is another one"),
        ("max-grad-norm = 1.0", "max-grad-norm = 2.0", "max-grad-norm is another one"),
        ('privacy = "on"', 'privacy = "off"', "privacy is another one"),
        ('noise-multiplier = "auto"', "noise-multiplier = 3.0", "the config asks for another"),
        ("expected-batch-size = 64", "expected-batch-size = 65", "batch over public size is 0.101562"),
        ("momentum = 0.0\n", "", "momentum is another one than in config.toml"),
    ],
)
def test_a_forger_with_all_digests_still_contradicts_the_run(
    before: str, after: str, words: str, made_run: MadeRun
) -> None:
    made_run.change_settings(before, after)
    assert words in made_run.words("config")


def test_resolved_may_differ_where_auto_was_asked_for(made_run: MadeRun) -> None:
    made_run.change_settings("noise-multiplier = 1.5", "noise-multiplier = 1.7", "resolved")
    assert made_run.words("config") == ""  # each client's charges are what counts


@pytest.mark.parametrize("after", ["momentum = 0.5\n", ""])
def test_and_nowhere_else(after: str, made_run: MadeRun) -> None:
    made_run.change_settings("momentum = 0.0\n", after, "resolved")
    assert "momentum is another one than in config.toml (resolved.toml)" in made_run.words("config")


def test_a_rate_fits_the_public_size(made_run: MadeRun) -> None:
    """A larger public size makes a lower rate, and a lower epsilon. A batch holds all of a few."""
    made_run.change_client(public_size=64000)
    assert "batch over public size is 0.001" in made_run.words("config")
    made_run.change_client(public_size=32, sample_rate=1.0)
    assert "batch over public size" not in made_run.words("config")
