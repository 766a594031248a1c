import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from federation.client.sites import PLAN, Site

from fl_dp.config.client import ClientConfig
from fl_dp.errors import UnsteadyError
from fl_dp.federation.client import kept_rows
from fl_dp.federation.client.kept_rows import ENDING, check_once, kernels_of, rows_of
from fl_dp.federation.client.kept_states import kept_by

CPU = torch.device("cpu")


@pytest.fixture
def config(tmp_path: Path) -> ClientConfig:
    return Site(tmp_path).config


def measured(config: ClientConfig, at_most: int = 64, **other: Any) -> bool:
    """Whether the rows for a round, which are always 16, had to be measured."""
    found = []

    def choose() -> int:
        found.append(at_most)
        return 16

    assert rows_of(config, replace(PLAN, **other), [CPU], at_most, choose) == 16
    return bool(found)


def test_a_round_of_the_same_kind_is_not_measured_again(config: ClientConfig) -> None:
    assert measured(config)
    assert not measured(config, run="run-2", server_round=2, learning_rate=2.0)


@pytest.mark.parametrize(
    "other",
    [
        {"model": "mlp"},
        {"expected_batch_size": 32},
        {"private": False},
        {"trained": "x"},
        {"task": "0" * 64},
        {"at_most": 32},
    ],
)
def test_one_of_another_kind_is(config: ClientConfig, other: dict[str, Any]) -> None:
    measured(config)
    assert measured(config, **other)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b'{"x": 1}', b"[" * 100_000])
def test_a_damaged_file_is_measured_anew(config: ClientConfig, content: bytes) -> None:
    measured(config)
    kept_by(config, ENDING).write_bytes(content)
    assert [measured(config), measured(config)] == [True, False]


def test_rows_that_cannot_be_are_not_taken(config: ClientConfig) -> None:
    for rows in ("0", "-1", "65", "1e9", '"16"', "true", "null"):
        measured(config)
        file = kept_by(config, ENDING)
        file.write_text(file.read_text().replace(": 16", f": {rows}"))
        assert measured(config), rows


def test_a_disk_that_takes_nothing_ends_no_round(
    config: ClientConfig, caplog: pytest.LogCaptureFixture
) -> None:
    kept_by(config, ENDING).parent.write_text("a file in its place")
    assert measured(config)
    assert "rows are not kept there" in caplog.text


def test_many_kinds_do_not_pile_up(config: ClientConfig) -> None:
    for size in range(1, 70):
        measured(config, expected_batch_size=size)
    assert len(json.loads(kept_by(config, ENDING).read_text())) == 64
    assert kept_by(config, ENDING).stat().st_mode & 0o777 == 0o600


def chosen(config: ClientConfig, rows: int = 16, memory: int = 64, **other: Any) -> bool:
    """Whether the kernels of a round had to be chosen."""
    found: list[int] = []

    def choose() -> dict[str, str]:
        found.append(rows)
        return {"weight": "ghost"}

    config = replace(config, memory_mib=memory)
    assert kernels_of(config, replace(PLAN, **other), [CPU], rows, choose) == {"weight": "ghost"}
    return bool(found)


def test_kernels_are_chosen_once_for_each_kind_of_round(
    config: ClientConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [chosen(config), chosen(config, server_round=2)] == [True, False]
    assert [chosen(config, rows=24), chosen(config, memory=65), chosen(config, model="mlp")] == [True] * 3
    file = kept_by(config, ENDING)
    file.write_text(file.read_text().replace('"ghost"', "7"))
    assert [chosen(config), chosen(config)] == [True, False]
    monkeypatch.setattr(kept_rows, "machine", lambda: "another processor")
    assert chosen(config)


def checked(config: ClientConfig, kernel: str = "ghost", rows: int = 16, **other: Any) -> bool:
    """Whether the rows of a round had to be checked."""
    found: list[int] = []
    check_once(config, replace(PLAN, **other), [CPU], rows, {"weight": kernel}, found.append)
    return bool(found)


def test_rows_are_checked_once_for_each_number_of_rows_kernels_and_processor(
    config: ClientConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [checked(config), checked(config, server_round=2)] == [True, False]
    assert [checked(config, "instantiate"), checked(config, rows=24), checked(config, model="mlp")] == [
        True
    ] * 3
    assert measured(config)  # what is kept of the check is no number of rows
    monkeypatch.setattr(kept_rows, "machine", lambda: "another processor")
    assert checked(config)


def test_another_card_behind_the_same_number_is_checked_again(
    config: ClientConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    for there in ("A", "A", "B"):
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device, there=there: there)
        check_once(
            config, PLAN, [torch.device("cuda:0")], 16, {}, lambda rows, there=there: asked.append(there)
        )
    assert asked == ["A", "B"]


def test_a_check_that_fails_is_not_kept(config: ClientConfig) -> None:
    def fail(_: int) -> None:
        raise UnsteadyError("by place")

    for _ in range(2):
        with pytest.raises(UnsteadyError):
            check_once(config, PLAN, [CPU], 16, {}, fail)
