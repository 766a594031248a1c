"""The state file: all that was put in comes out, and what is no state is refused by name."""

import json
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic_core import to_json
from run_records import client, record

from fl_dp.accounting.budget import Budget
from fl_dp.config.run import RunConfig
from fl_dp.config.setting import MOST_SEED
from fl_dp.errors import ConfigError
from fl_dp.federation.server.client_record import AccountOfTests, ClientRecord
from fl_dp.federation.server.state import RunState, read_state, write_state
from fl_dp.records import NUMERICS, ClientProfile, Entry
from fl_dp.reporting.reports import FederationBudget

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
        2**62 + 1,
        SPENT,
        Entry(0.1, 1.5, 10),
        unconfirmed=(Entry(0.1, 1.5, 3),),
        rounds=4,
        before=(Entry(0.1, 1.5, 30),),
        asked=(Entry(0.1, 1.5, 13), Entry(1 / 3, 2.0, 1)),
        run_epsilon=2.5,
        tests=AccountOfTests(Budget(2.0, 1e-6, "rdp"), (Entry(1.0, 6.0, 2, 3),), 2),
    ),
    ClientRecord(
        ClientProfile("Zürich, \N{SNOWMAN}", 1, 0.1, 1e-6, (), "pld"),
        7,
        (),
        None,
        exhausted=True,
        reason="why",
    ),
]


@pytest.fixture
def state() -> RunState:
    return RunState(
        run="17",
        origin="9",
        settings=RunConfig().to_flat(),
        seconds=1.5,
        last=REPORT,
        secret=bytes(range(32)),
        clients=tuple(MEMBERS),
        registered=("a",),
        aggregated={"optimizer first moment of a.b": np.float64([[0.1, 0.2]])},
        kept={"numbers": np.float64([1.0, 2.0, float("inf")]), "array a.b": np.float32([[3.0, 4.0]])},
        arrays={"a.b": np.float32([[1.1, 2.2]]), "file": np.array(7, np.int64), "half": np.float16([0.1])},
    )


def test_what_is_written_is_read(state, tmp_path):
    path = tmp_path / "state.npz"
    for _ in range(2):  # in the place of an earlier one, too
        write_state(path, state)
    again = read_state(path)
    nothing = {"arrays": {}, "aggregated": {}, "kept": {}}
    assert replace(again, **nothing) == replace(state, **nothing)
    for name in nothing:
        found, written = getattr(again, name), getattr(state, name)
        assert found.keys() == written.keys()
        for name, array in written.items():
            assert found[name].dtype == array.dtype
            np.testing.assert_array_equal(found[name], array)
    assert (again.last, again.rounds) == (REPORT, 3)
    write_state(path, replace(state, last=None))
    assert (read_state(path).last, read_state(path).rounds) == (None, 0)


def test_a_run_of_any_seed_can_be_resumed(state, tmp_path):
    """Also of one that is beyond the integers that every JSON reader has."""
    for seed in (2**53, MOST_SEED):
        config = RunConfig(seed=seed)
        write_state(tmp_path / "state.npz", replace(state, settings=config.to_flat()))
        read_state(tmp_path / "state.npz").check_same(config)


def test_it_holds_a_secret_and_only_its_owner_can_read_it(state, tmp_path):
    write_state(tmp_path / "state.npz", state)
    assert stat.S_IMODE((tmp_path / "state.npz").stat().st_mode) == 0o600
    assert repr(state.secret) not in repr(state)


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
        {"header": np.frombuffer(b'{"version": 8}', np.uint8)},
    ],
    ids=["another archive", "pickled", "another's header"],
)
def test_a_foreign_file_is_refused_by_name(tmp_path, content):
    np.savez(tmp_path / "state.npz", **content)
    with pytest.raises(ConfigError, match=r"state\.npz: damaged, or not the state of a run"):
        read_state(tmp_path / "state.npz")


def read_again(folder: Path, header: dict[str, Any], **arrays: Any) -> RunState:
    np.savez(folder / "state.npz", header=np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays)
    return read_state(folder / "state.npz")


@pytest.mark.parametrize("version", [1, 7, 99])
def test_another_format_is_refused_with_what_to_do(tmp_path, version):
    words = f"is of format {version}, this fl_dp reads 8; resume the run with the fl_dp that started it"
    with pytest.raises(ConfigError, match=words):
        read_again(tmp_path, {"version": version})


def changed(path: Path, part: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Change what one of the state's parts says, as JSON."""
    with np.load(path) as archive:
        parts = dict(archive)
    found = json.loads(parts[part].tobytes())
    change(found)
    np.savez(path, **parts | {part: np.frombuffer(json.dumps(found).encode(), np.uint8)})


def test_a_line_that_is_no_report_is_refused_at_once(state, tmp_path):
    """Before anything is asked of a client; as of a report that says not whose an epsilon is."""
    path = tmp_path / "state.npz"
    write_state(path, state)
    changed(path, "line", lambda line: line["clients"]["b"].pop("accountant"))
    with pytest.raises(ConfigError, match=r"state\.npz, the last round: is damaged: clients\.b\.accountant"):
        read_state(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda one: one.update(spent=[{"sample_rate": 2.0, "noise_multiplier": 1.0, "steps": 1}]), "spent"),
        (lambda one: one.update(rounds="4"), "rounds"),
        (lambda one: one.update(rounds=-1), "rounds"),
        (lambda one: one.update(secret="x"), "secret: is none of its fields"),
        (lambda one: one["profile"].update(epsilon="9"), r"profile\.epsilon"),
        (lambda one: one["profile"].pop("delta"), r"profile\.delta: is missing"),
    ],
)
def test_an_invalid_client_is_refused_with_the_field_named(state, tmp_path, change, words):
    path = tmp_path / "state.npz"
    write_state(path, state)
    changed(path, "header", lambda header: change(header["clients"][0]))
    with pytest.raises(ConfigError, match=rf"state\.npz: damaged, .*\(clients\.0\.{words}"):
        read_state(path)


@pytest.mark.parametrize("name", ["unconfirmed", "asked", "tests", "exhausted", "run_epsilon"])
def test_nothing_that_is_left_out_becomes_its_default(state, tmp_path, name):
    """A payment would be lost. All else is as it was written, without a space."""
    path = tmp_path / "state.npz"
    write_state(path, state)
    with np.load(path) as archive:
        parts = dict(archive)
    header = json.loads(parts["header"].tobytes())
    for there in (True, False):
        np.savez(path, **parts | {"header": np.frombuffer(to_json(header), np.uint8)})
        if there:
            assert read_state(path).clients == state.clients
            del header["clients"][0][name]
        else:
            with pytest.raises(ConfigError, match=r"state\.npz: damaged"):
                read_state(path)


def test_a_run_goes_on_with_its_own_settings(state):
    state.check_same(RunConfig(out="elsewhere", round_timeout=7.0, clients_per_cpu=2))
    with pytest.raises(ConfigError, match=r"rounds = 4: the run was started with 3"):
        state.check_same(RunConfig(rounds=4))
    with pytest.raises(ConfigError, match="device = 'cpu'"):
        state.check_same(RunConfig(device="cpu"))


@pytest.mark.parametrize("numerics", [NUMERICS - 1, NUMERICS + 1])
def test_a_round_of_other_results_is_not_gone_on_with(state, numerics):
    with pytest.raises(ConfigError, match="the same round would give a different update"):
        replace(state, numerics=numerics).check_same(RunConfig())
