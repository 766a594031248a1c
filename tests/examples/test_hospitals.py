"""The example of four hospitals: FLamby's records, and a common model that is better than chance."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from launch.commands import fl_dp

from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.data.tensor_data import TensorData
from fl_dp.federation.client.registration import task_identity
from fl_dp.federation.server.prepare import PreparedRun
from fl_dp.federation.server.run_record import RunRecord
from fl_dp.launch.preflight import check_choices, check_server
from fl_dp.launch.request import read_config
from fl_dp.reporting.run_results import RunResults
from fl_dp.tasks.description import describe
from fl_dp.tasks.load import task_of
from fl_dp.tasks.records import load_part, records_of

HERE = Path(__file__).parents[2] / "examples" / "hospitals"
SIZES = {"cleveland": (199, 104), "hungary": (172, 89), "long_beach": (85, 45), "switzerland": (30, 16)}


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> RunConfig:
    monkeypatch.chdir(HERE.parents[1])  # the paths in run.toml start there
    return read_config(HERE / "run.toml")


@pytest.fixture(scope="module")
def task_file() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hospitals_task", HERE / "task.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def part(task_file: ModuleType, name: str, split: str) -> TensorData:
    found = task_file.part(HERE / "data" / f"{name}.data", split)
    assert isinstance(found, TensorData)
    return found


@pytest.mark.parametrize("name", SIZES)
def test_records_are_as_many_as_flambys(task_file: ModuleType, name: str) -> None:
    train, test = part(task_file, name, "train"), part(task_file, name, "test")
    assert (len(train), len(test)) == SIZES[name]
    assert train.form.input_shape == (13,)
    # the file of Long Beach has one record twice, and FLamby puts one copy on each side
    assert len(set(train.raw) & set(test.raw)) == (name == "long_beach")
    assert float(train.x.abs().max()) <= 1
    if name == "switzerland":  # of Zurich and Basel all but one are ill
        assert int(train.y.sum() + test.y.sum()) == len(train) + len(test) - 1


def test_each_client_of_a_run_is_a_hospital(config: RunConfig) -> None:
    clients = [
        ClientConfig(client=str(k), ledger="l", partition_id=k, num_partitions=4, **config.of_task())
        for k in range(4)
    ]
    parts = [load_part(client) for client in clients]
    assert [set(one.groups) for one in parts] == [{name} for name in sorted(SIZES)]
    assert [len(one) for one in parts] == [SIZES[name][0] for name in sorted(SIZES)]


def of_one(name: str) -> ClientConfig:
    data = f"csv:examples/hospitals/data/{name}.data"
    return ClientConfig(client=name, ledger="l", task="examples/hospitals/task.py", data=data)


def test_one_hospital_reads_its_own_file_and_means_the_same_task(config: RunConfig) -> None:
    assert len(load_part(of_one("hungary"))) == SIZES["hungary"][0]
    assert task_identity(of_one("hungary")) == task_identity(config) != ""


def test_a_server_needs_no_records(config: RunConfig, tmp_path: Path) -> None:
    nowhere = RunConfig.from_flat(config.to_flat() | {"data": f"csv:{tmp_path}"})
    check_choices(nowhere)
    check_server(nowhere)
    assert task_of(nowhere).form.input_shape == (13,)
    assert records_of(task_of(config), "test") is not None


@pytest.mark.slow
def test_a_second_run_shows_what_the_first_has_spent_and_is_declined_with_the_way_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without being asked, the hospitals keep a ledger that lasts; one of a run alone is said to be so."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    lasting = tmp_path / "state" / "fl-dp" / "ledger"
    outs = {name: tmp_path / name for name in ("first", "second", "own", "after")}
    more = {"own": ["--one-run-ledger"], "after": ["--ledger", str(outs["own"] / "ledgers")]}
    words = ["run", "--config", str(HERE / "run.toml")]
    done = {
        name: fl_dp(*words, "--out", str(out), *more.get(name, ()), cwd=HERE.parents[1])
        for name, out in outs.items()
    }
    assert {name: one.returncode for name, one in done.items()} == {
        "first": 0,
        "second": 3,
        "own": 0,
        "after": 3,
    }, [one.stderr for one in done.values()]
    pages = {name: (out / "report.html").read_text() for name, out in outs.items()}
    clients = {name: json.loads((out / "summary.json").read_text())["clients"] for name, out in outs.items()}
    for begun, again, where in (("first", "second", lasting), ("own", "after", outs["own"] / "ledgers")):
        assert f"ledger in {where}: what other runs have spent there is counted" in " ".join(
            done[again].stdout.split()
        )
        assert "fl-dp ledger show" in done[again].stdout
        assert "--set epsilon=N" in done[again].stdout
        spent = {client: one["charges"] for client, one in clients[begun].items()}
        assert {client: one["before"] for client, one in clients[again].items()} == spent
        assert "Nothing was trained" in pages[again]
    assert f"ledger in {lasting}: " in " ".join(done["first"].stdout.split())
    assert "in this run. The ledgers show no other runs on the same data." in pages["first"]
    own = " ".join(done["own"].stdout.split())
    assert f"ledger in {outs['own'] / 'ledgers'}, for this run alone" in own
    assert "The ledger was made for this run only" in pages["own"]
    verified = fl_dp("verify", str(outs["own"]), "--ledger", str(outs["own"] / "ledgers"))
    assert verified.returncode == 0, verified.stdout
    assert "the ledger was made for this run alone (4 clients: 0, 1, 2, 3)" in verified.stdout


@pytest.mark.slow
def test_what_is_measured_is_as_good_as_the_readme_says() -> None:
    """Two seeds; the table of the README is of twenty."""
    command = [sys.executable, str(HERE / "measure.py"), "--seeds", "2"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE.parents[1])
    assert result.returncode == 0, result.stderr
    rows = [line.split(" | ") for line in result.stdout.splitlines() if line.startswith("| ")]
    auroc = {row[0].strip("| "): float(row[2].split()[0]) for row in rows[1:5]}
    assert auroc["no privacy"] > 0.82
    assert auroc["5.0"] > 0.79
    assert auroc["1.0"] > 0.78
    assert auroc["0.1"] > 0.55


def test_summary_and_description_name_one_code(config: RunConfig, tmp_path: Path) -> None:
    """The plan's identity covers the schema, too; what a run leaves speaks of the code alone."""
    federation = PreparedRun(config, "1", RunRecord(RunResults(tmp_path), resumed=False), lambda report: None)
    assert federation.task_identity == describe(federation.task).identity != ""


@pytest.mark.slow
def test_the_hospitals_measure_their_model_themselves(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = fl_dp(
        "run",
        "--simulate",
        "--config",
        str(HERE / "run.toml"),
        "--out",
        str(out),
        "--set",
        "test=own",
        "--set",
        "site-metrics=true",
        cwd=HERE.parents[1],
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (out / "rounds.jsonl").read_text().splitlines()]
    assert ["site_metrics" in line for line in lines] == [False, False, True]
    found = lines[-1]["site_metrics"]
    assert [one["status"] for one in found["sites"].values()] == ["evaluated"] * 4
    assert found["epsilon"] <= 1.0
    auroc, records = found["metrics"]["auroc"], found["metrics"]["records"]
    assert abs(records["value"] - 254) < 150  # six deviations of its noise: 4 sites, 16 cells, 3.1 in each
    assert 80 < records["high"] - records["low"] < 110
    assert 0 <= auroc["low"] < auroc["high"]
    assert auroc["high"] > 0.6
    assert "sites' auroc" in " ".join(done.stdout.split())
    assert "own, after round 3" in (out / "report.html").read_text()
    verified = fl_dp("verify", str(out), "--ledger", str(out / "ledgers"))
    assert "each pays only for evaluations" in " ".join(verified.stdout.split()), verified.stdout
