from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from federation.client.sites import PLAN, Site

from fl_dp.config.client import ClientConfig
from fl_dp.federation.client.kept_rows import kept_rows_file, rows_of

CPU = torch.device("cpu")


@pytest.fixture
def config(tmp_path: Path) -> ClientConfig:
    return Site(tmp_path).config


def asked(config: ClientConfig, measured: list[int], at_most: int = 64, **other: Any) -> int:
    """The rows for a round; `measured` grows where they had to be measured."""

    def choose() -> int:
        measured.append(at_most)
        return 16

    return rows_of(config, replace(PLAN, **other), CPU, at_most, choose)


def test_a_round_of_the_same_kind_is_not_measured_again(config: ClientConfig) -> None:
    measured: list[int] = []
    for number in range(3):
        other = {"run": f"run-{number}", "server_round": number, "learning_rate": 1.0 + number}
        assert asked(config, measured, **other) == 16
    assert len(measured) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"model": "mlp"}, {"expected_batch_size": 32}, {"private": False}, {"precision": "bf16"},
        {"trained": "x"}, {"task": "0" * 64}, {"at_most": 32},
    ],
)  # fmt: skip
def test_one_of_another_kind_is(config: ClientConfig, other: dict[str, Any]) -> None:
    measured: list[int] = []
    asked(config, measured)
    asked(config, measured, **other)
    assert len(measured) == 2


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b'{"x": 1}', b"[" * 100_000])
def test_a_damaged_file_is_measured_anew(config: ClientConfig, content: bytes) -> None:
    measured: list[int] = []
    asked(config, measured)
    kept_rows_file(config).write_bytes(content)
    assert asked(config, measured) == 16
    assert asked(config, measured) == 16
    assert len(measured) == 2


@pytest.mark.parametrize("rows", ["0", "-1", "65", "1e9", '"16"', "true", "null"])
def test_rows_that_cannot_be_are_not_taken(config: ClientConfig, rows: str) -> None:
    measured: list[int] = []
    asked(config, measured)
    file = kept_rows_file(config)
    file.write_text(file.read_text().replace(": 16", f": {rows}"))
    assert asked(config, measured) == 16
    assert len(measured) == 2


def test_a_disk_that_takes_nothing_ends_no_round(
    config: ClientConfig, caplog: pytest.LogCaptureFixture
) -> None:
    kept_rows_file(config).parent.write_text("a file in its place")
    assert asked(config, []) == 16
    assert "rows are not kept there" in caplog.text


def test_many_kinds_do_not_pile_up(config: ClientConfig) -> None:
    for size in range(1, 100):
        asked(config, [], expected_batch_size=size)
    assert kept_rows_file(config).stat().st_size < 3000
    assert kept_rows_file(config).stat().st_mode & 0o777 == 0o600
