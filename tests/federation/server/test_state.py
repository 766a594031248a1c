"""The state file: all that was put in comes out, and what is no state is refused by name."""

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_records import client, record

from fl_dp.accounting.budget import Budget
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.federation.server.accounts_of_tests import AccountOfTests
from fl_dp.federation.server.client_record import ClientRecord
from fl_dp.federation.server.state import ServerState, read_state, write_state
from fl_dp.records import NUMERICS, ClientProfile, Entry
from fl_dp.reporting.reports import FederationBudget
from fl_dp.reporting.run_results import to_line

TOGETHER = FederationBudget(
    largest=float("inf"), median=0.5, least=0.0, accountants=("pld", "rdp"), running_out=("a",)
)
REPORT = record(
    3,
    {
        "a": client(float("inf"), accountant="rdp", reported=(("steps", 5),)),
        "b": client(0.5, steps=0, charges=(), sample_rate=None, status="idle", reason="why"),
    },
    2.5,
    TOGETHER,
    epsilon=float("inf"),
    accuracy=None,
)
SPENT = (Entry(0.1, 1.5, 40), Entry(1 / 3, 2.0, 1))
MEMBERS = [
    ClientRecord(
        ClientProfile("a", 640, 3.0, 1e-5, SPENT, "rdp", 0.5, True, 2),
        2**62 + 1, SPENT, Entry(0.1, 1.5, 10), unconfirmed=(Entry(0.1, 1.5, 3),), rounds=4,
        before=(Entry(0.1, 1.5, 30),), asked=(Entry(0.1, 1.5, 13), Entry(1 / 3, 2.0, 1)),
    ),
    ClientRecord(
        ClientProfile("Zürich, \N{SNOWMAN}", 1, 0.1, 1e-6, (), "pld"),
        7, (), None, exhausted=True, reason="why",
    ),
]  # fmt: skip


@pytest.fixture
def state() -> ServerState:
    return ServerState(
        run="17",
        origin="9",
        settings=RunConfig().to_flat(),
        rounds=3,
        seconds=1.5,
        line=to_line(REPORT),
        secret=bytes(range(32)),
        clients=MEMBERS,
        registered=frozenset({"a"}),
        tests={"a": AccountOfTests(Budget(2.0, 1e-6, "rdp"), (Entry(1.0, 6.0, 2, 3),), 2)},
        aggregated={"optimizer first moment of a.b": np.float64([[0.1, 0.2]])},
        arrays={"a.b": np.float32([[1.1, 2.2]]), "file": np.array(7, np.int64), "half": np.float16([0.1])},
    )  # fmt: skip


def test_what_is_written_is_read(state, tmp_path):
    path = tmp_path / "state.npz"
    for _ in range(2):  # in the place of an earlier one, too
        write_state(path, state)
    again = read_state(path)
    assert replace(again, arrays={}, aggregated={}) == replace(state, arrays={}, aggregated={})
    for found, written in ((again.arrays, state.arrays), (again.aggregated, state.aggregated)):
        assert found.keys() == written.keys()
        for name, array in written.items():
            assert found[name].dtype == array.dtype
            np.testing.assert_array_equal(found[name], array)
    assert again.last_report() == REPORT
    assert replace(again, line="").last_report() is None


def test_it_holds_a_secret_and_only_its_owner_can_read_it(state, tmp_path):
    write_state(tmp_path / "state.npz", state)
    assert stat.S_IMODE((tmp_path / "state.npz").stat().st_mode) == 0o600
    assert repr(state.secret) not in repr(state)


def test_a_write_that_is_cut_short_leaves_the_state_before(state, tmp_path, monkeypatch):
    path = tmp_path / "state.npz"
    write_state(path, state)

    def full(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="disk full"):
        write_state(path, replace(state, rounds=4))
    assert read_state(path).rounds == 3


def test_a_torn_file_is_refused_by_name_and_a_flipped_bit_is_found(state, tmp_path):
    path = tmp_path / "state.npz"
    write_state(path, state)
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[whole.index(np.float32(2.2).tobytes())] ^= 1
    for content in (b"", whole[: len(whole) // 2], whole[:-1], flipped):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=r"state\.npz: damaged, or not the state of a run"):
            read_state(path)


@pytest.mark.parametrize(
    "content",
    [
        {"weights": np.zeros(3)},
        {"header": np.array([{"a": 1}], dtype=object)},
        {"header": np.frombuffer(b'{"version": 7}', np.uint8)},
    ],
    ids=["another archive", "pickled", "another's header"],
)
def test_a_foreign_file_is_refused_by_name(tmp_path, content):
    np.savez(tmp_path / "state.npz", **content)
    with pytest.raises(ConfigError, match=r"state\.npz: damaged, or not the state of a run"):
        read_state(tmp_path / "state.npz")


def read_again(folder: Path, header: dict[str, Any], **arrays: Any) -> ServerState:
    np.savez(folder / "state.npz", header=np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays)
    return read_state(folder / "state.npz")


@pytest.mark.parametrize("version", [1, 6, 99])
def test_another_format_is_refused_with_what_to_do(tmp_path, version):
    words = f"is of format {version}, this fl_dp reads 7; resume the run with the fl_dp that started it"
    with pytest.raises(ConfigError, match=words):
        read_again(tmp_path, {"version": version})


def test_a_line_that_is_no_report_is_refused_at_once(state, tmp_path):
    """Before anything is asked of a client; as of a report that says not whose an epsilon is."""
    line = json.loads(state.line)
    del line["clients"]["b"]["accountant"]
    write_state(tmp_path / "state.npz", replace(state, line=json.dumps(line)))
    with pytest.raises(ConfigError, match=r"state\.npz, the last round: is damaged: clients\.b\.accountant"):
        read_state(tmp_path / "state.npz")


def test_a_run_goes_on_with_its_own_settings(state):
    state.check_same(RunConfig(out="elsewhere", round_timeout=7.0, clients_per_cpu=2))
    with pytest.raises(ConfigError, match=r"rounds = 4: the run was started with 3"):
        state.check_same(RunConfig(rounds=4))
    with pytest.raises(ConfigError, match="device = 'cpu'"):
        state.check_same(RunConfig(device="cpu"))


def test_a_round_of_other_results_is_not_gone_on_with(state):
    with pytest.raises(ConfigError, match="the same round would give another update"):
        replace(state, numerics=NUMERICS + 1).check_same(RunConfig())
