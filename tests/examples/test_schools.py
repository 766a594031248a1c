"""The example of 139 schools, on schools that are made up: the real ones are not shipped."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from scipy.io import savemat
from torch import nn

from fl_dp.config.run import RunConfig
from fl_dp.launch.preflight import check_server
from fl_dp.tasks.load import new_model, task_of
from fl_dp.tasks.records import load_parts

EXAMPLE = Path(__file__).parents[2] / "examples" / "schools"
Schools = list[tuple[np.ndarray, np.ndarray]]


@pytest.fixture
def measure(of_schools: Callable[[str], ModuleType]) -> ModuleType:
    return of_schools("measure")


@pytest.fixture
def schools(made_up: ModuleType) -> Schools:
    made: Schools = made_up.schools(0)
    return made


def written(file: Path, schools: Schools) -> Path:
    """As school.mat: two cells of arrays."""
    x, y = np.empty((1, len(schools)), dtype=object), np.empty((1, len(schools)), dtype=object)
    for number, (inputs, scores) in enumerate(schools):
        x[0, number], y[0, number] = inputs, scores
    savemat(file, {"X": x, "Y": y})
    return file


@pytest.fixture
def prepared(prepare: ModuleType, schools: Schools, tmp_path: Path) -> Path:
    prepare.main(written(tmp_path / "school.mat", schools), tmp_path / "to", 2)
    return tmp_path / "to"


def config(data: Path, **more: Any) -> RunConfig:
    flat = RunConfig.from_toml(EXAMPLE / "run.toml").to_flat()
    own = {"data": f"npz:{data}/seed-0/{{client}}.npz", "task": str(EXAMPLE / "task.py")}
    return RunConfig.from_flat(flat | own | {key.replace("_", "-"): value for key, value in more.items()})


def test_every_record_is_in_one_part_of_its_school(
    prepared: Path, prepare: ModuleType, schools: Schools
) -> None:
    for number, (x, y) in enumerate(schools):
        with np.load(prepared / "seed-0" / f"{number}.npz") as arrays:
            found = np.r_[arrays["y_train"], arrays["y_test"]]
            assert len(arrays["y_test"]) == np.ceil(0.2 * len(y))
            assert len(arrays["x_train"]) == len(arrays["y_train"])
        assert np.array_equal(np.sort(found), np.sort(prepare.scaled(x, y.ravel())[1]))
    tests = [np.load(prepared / f"seed-{seed}" / "0.npz")["y_test"] for seed in (0, 1)]
    assert not np.array_equal(*tests)  # the seed decides the test parts


def test_a_record_is_scaled_by_constants_alone(prepare: ModuleType, schools: Schools) -> None:
    x, y = schools[0]
    inputs, targets = prepare.scaled(x, y.ravel())
    alone = prepare.scaled(x[3:4], y.ravel()[3:4])
    assert np.array_equal(alone[0], inputs[3:4])
    assert np.array_equal(alone[1], targets[3:4])
    assert inputs.shape == (len(x), 27)
    assert inputs.min() >= 0
    assert inputs.max() <= 1
    assert np.allclose(targets * 69 + 1, y.ravel())
    assert np.allclose(inputs[:, [3, 4]] * 100, x[:, [3, 4]])


def test_other_files_are_refused(prepare: ModuleType, schools: Schools, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="expected 139 schools of 28 columns"):
        prepare.read(written(tmp_path / "other.mat", schools[:100]))


def test_each_school_is_a_client_with_a_model_that_can_be_protected(prepared: Path, schools: Schools) -> None:
    asked = config(prepared)
    check_server(asked)
    data, parts = load_parts(asked)
    assert [len(part) for part in parts] == [len(y) - int(np.ceil(0.2 * len(y))) for _, y in schools]
    model = new_model(task_of(asked))
    assert torch.equal(model(data.x), torch.zeros(len(data), 1))
    assert max(map(len, parts)) <= asked.expected_batch_size  # all records in every step


def test_what_was_chosen_is_what_is_measured_and_asked_for(measure: ModuleType, choose: ModuleType) -> None:
    asked = RunConfig.from_toml(EXAMPLE / "run.toml")
    assert (asked.rounds, asked.local_epochs) == (choose.ROUNDS, choose.STEPS)
    assert (asked.epsilon, asked.delta) == (choose.EPSILON, choose.DELTA)
    for way, settings in measure.WAYS.items():
        assert settings["learning_rate"] in choose.RATES, way
        assert settings["max_grad_norm"] in choose.BOUNDS, way
    assert measure.PULL in choose.PULLS


def test_what_is_measured_are_settings_of_a_run(measure: ModuleType, prepared: Path) -> None:
    for way, settings in measure.WAYS.items():
        task_of(config(prepared, **settings))
        assert config(prepared, **settings).private == ("no privacy" not in way)


def lines(file: Path, rows: list[tuple[str, int, list[float]]]) -> None:
    """Three schools: of 20, 80 and 150 training records."""
    of_schools = {"tests": [5, 20, 40], "trained_on": [20, 80, 150]}
    texts = [json.dumps({"way": way, "seed": seed, "errors": e} | of_schools) for way, seed, e in rows]
    file.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def test_a_table_of_what_was_measured(measure: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "measured"
    rows = [("mr-mtl", 0, [0.3, 0.2, 0.1]), ("fedavg", 0, [0.2] * 3), ("fedavg", 1, [0.4] * 3)]
    lines(file, [*rows, ("alone", 1, [0.4] * 3)])
    table = measure.table(measure.read(file)).splitlines()
    means = "0.30000 ± 0.10000 (2)"
    # with the same test parts: 0.2 beside 0.14615; seed 1 has nothing to be compared with
    assert table[2] == f"| fedavg | {means} | +0.05385 (1) | {' | '.join([means] * 4)} |"
    assert table[3].startswith("| alone | 0.40000 (1) | not measured |")
    # by test records (1.5 + 4 + 4) / 65, alike 0.6 / 3, and each school by its size
    ours = "0.14615 (1) | +0.00000 (1) | 0.20000 (1) | 0.30000 (1) | 0.20000 (1) | 0.10000 (1)"
    assert table[4] == f"| mr-mtl | {ours} |"


def test_a_measurement_goes_on_where_it_was_stopped(
    measure: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, asked = tmp_path / "measured", []
    lines(file, [("fedavg", 0, [0.2, 0.2, 0.2])])

    def one(way: str, seed: int, data: Path) -> Any:
        asked.append((way, seed))
        return measure.Outcome([0.1, 0.1, 0.1], [5, 20, 40], [20, 80, 150])

    monkeypatch.setattr(measure, "measured", one)
    monkeypatch.setattr(measure.ray, "init", lambda **_: None)
    arguments = ["measure.py", "--out", str(file), "--seeds", "2", "--ways", "fedavg;alone"]
    monkeypatch.setattr(sys, "argv", arguments)
    measure.main()
    assert asked == [("alone", 0), ("fedavg", 1), ("alone", 1)]
    assert "| fedavg | 0.15000 ± 0.05000 (2)" in capsys.readouterr().out
    measure.main()
    assert len(asked) == 3


def test_schools_are_scored_by_their_own_records(measure: ModuleType, prepared: Path) -> None:
    class Run:
        settings = config(prepared, local_algorithm="mr-mtl")

        def model_of(self, number: int) -> nn.Module:
            layer = nn.Linear(27, 1)
            nn.init.zeros_(layer.weight)
            nn.init.constant_(layer.bias, float(number))
            return layer

    outcome = measure.scored(Run(), prepared / "seed-0")
    with np.load(prepared / "seed-0" / "2.npz") as arrays:
        assert outcome.errors[2] == pytest.approx(((arrays["y_test"] - 2.0) ** 2).mean(), rel=1e-5)
        assert (outcome.tests[2], outcome.trained_on[2]) == (len(arrays["y_test"]), len(arrays["y_train"]))
    assert len(outcome.errors) == 139


FEW = """
import json, sys
from pathlib import Path
import measure
few = {"clients": 3, "min_clients": 3, "fit_clients": 3, "rounds": 2, "epsilon": 1000.0}
print(json.dumps(measure.measured(sys.argv[1], 0, Path(sys.argv[2]), **few).error()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["fedavg", "mr-mtl"])
def test_a_run_of_three_schools_is_measured(prepared: Path, way: str) -> None:
    """In a process of its own, as all that start Ray."""
    result = subprocess.run(
        [sys.executable, "-c", FEW, way, str(prepared)],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": f"{EXAMPLE}{os.pathsep}{EXAMPLE.parents[1]}"},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    targets = []
    for number in range(3):
        with np.load(prepared / "seed-0" / f"{number}.npz") as arrays:
            targets.append(arrays["y_test"])
    untrained = float(np.square(np.concatenate(targets)).mean())
    assert 0 < float(result.stdout.splitlines()[-1]) < untrained
