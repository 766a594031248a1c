"""What client.py makes of its options, up to the point where it would join."""

from pathlib import Path
from typing import Any

import pytest
import typer

from fl_dp.cli import APP_OPTIONS, run_command
from fl_dp.config import ClientConfig
from fl_dp.launch import join as module


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[ClientConfig]:
    """Settings with which the SuperNode would have been started."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    seen: list[ClientConfig] = []

    def supernode(settings: ClientConfig, *_: Any) -> int:
        seen.append(settings)
        return 0

    monkeypatch.setattr(module, "_run_supernode", supernode)
    return seen


def client(*words: str) -> int:
    command = typer.Typer(**APP_OPTIONS)
    command.command()(module.join)
    return run_command(command, ["--superlink", "host:9092", "--insecure", *words], prog="client.py")


def test_the_ledger_lasts_and_is_shown(
    joined: list[ClientConfig], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert client("--name", "clinic") == 0
    assert joined[0].ledger == str(tmp_path / "state/fl-dp/ledger/client-clinic.sqlite")
    assert joined[0].ledger in capsys.readouterr().out


def test_options_are_the_clients_own_limits(joined: list[ClientConfig]) -> None:
    limits = ["--epsilon", "2", "--delta", "1e-6", "--min-noise-multiplier", "1", "--max-grad-norm", "0.5"]
    assert client("--name", "a", "--partition", "1/3", *limits) == 0
    (settings,) = joined
    assert (settings.epsilon, settings.delta) == (2.0, 1e-6)
    assert (settings.min_noise_multiplier, settings.max_grad_norm) == (1.0, 0.5)
    assert (settings.partition_id, settings.num_partitions) == (1, 3)


def test_options_stand_above_the_file(joined: list[ClientConfig], tmp_path: Path) -> None:
    file = tmp_path / "client.toml"
    file.write_text('client = "a"\nledger = "/ledgers/a.sqlite"\nepsilon = 1.0\n')
    assert client("--config", str(file), "--epsilon", "0.5") == 0
    assert client("--config", str(file), "--ledger", str(tmp_path)) == 0
    assert [one.epsilon for one in joined] == [0.5, 1.0]
    assert [one.ledger for one in joined] == ["/ledgers/a.sqlite", str(tmp_path / "client-a.sqlite")]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--partition", "2/2"], "partition-id = 2: expected an integer from 0"),
        (["--partition", "2"], "--partition 2: expected K/N"),
        (["--name", "a/b"], "client = 'a/b'"),
        (["--epsilon", "0"], "epsilon = 0.0"),
        (["--config", "absent.toml"], "--config absent.toml"),
        (["--root-certificates", "ca.crt"], "either --root-certificates"),
    ],
)
def test_a_bad_option_is_named_and_nothing_is_started(
    words: list[str], expected: str, joined: list[ClientConfig], capsys: pytest.CaptureFixture[str]
) -> None:
    assert client(*words) == 2
    assert expected in capsys.readouterr().err
    assert joined == []
