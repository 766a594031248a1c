"""The secret of a simulation, and what follows from it."""

import dataclasses
import stat
from typing import Any

import pytest

from fl_dp.errors import ConfigError
from fl_dp.records import NUMERICS, RoundPlan
from fl_dp.simulation.actor.keys import kept_secret, result_of, run_name


def test_the_secret_is_made_once_and_its_owner_alone_can_read_it(tmp_path):
    path = tmp_path / "clients" / "secret"
    secret = kept_secret(path)
    assert len(secret) == 32
    assert kept_secret(path) == secret
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert kept_secret(tmp_path / "another") != secret


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_a_damaged_secret_is_refused(tmp_path, content):
    (tmp_path / "secret").write_bytes(content)
    with pytest.raises(ConfigError, match="secret: is damaged"):
        kept_secret(tmp_path / "secret")


def test_other_randomness_is_another_run():
    """A round of one name is paid for once: the name must tell all that decides its result."""
    name = run_name(b"a" * 32, "cpu")
    assert name == run_name(b"a" * 32, "cpu")
    assert len({name, run_name(b"b" * 32, "cpu"), run_name(b"a" * 32, "cuda")}) == 3


def test_all_that_decides_a_result_is_in_its_name(monkeypatch):
    """The same noise on another result would reveal their difference."""
    plan = RoundPlan("run", 1, "linear", 2, 8, 0.5, 0.0, 1.0, 1.0)
    names = {result_of("weights", plan), result_of("other weights", plan)}
    changes: list[dict[str, Any]] = [
        {"steps": 3}, {"learning_rate": 0.6}, {"loss": "another"}, {"numerics": NUMERICS + 1},
        {"max_grad_norm": 2.0}, {"noise_multiplier": 2.0},
    ]  # fmt: skip
    names |= {result_of("weights", dataclasses.replace(plan, **change)) for change in changes}
    names.add(result_of("weights", plan, "state"))
    monkeypatch.setattr("torch.__version__", "another")
    names.add(result_of("weights", plan))
    assert len(names) == 4 + len(changes)
    assert result_of("weights", plan) == result_of("weights", dataclasses.replace(plan))
