import re
from collections.abc import Callable

import pytest

from fl_dp.errors import ConfigError
from fl_dp.launch.sweep.sweep_file import SweepRequest, read_sweep

Read = Callable[[str], SweepRequest]


def names(asked: SweepRequest) -> list[str]:
    return [run.name for run in asked.runs]


def test_every_combination_meets_every_seed(read):
    asked = read("seeds = [3, 1]\n[grid]\nepsilon = [1, 8]\nlearning-rate = [0.5]\n")
    points = [f"epsilon={epsilon},learning-rate=0.5" for epsilon in (1, 8)]
    assert names(asked) == [f"{point},seed={seed}" for point in points for seed in (3, 1)]
    last = asked.runs[-1].config
    assert (last.epsilon, last.learning_rate, last.seed, last.rounds) == (8.0, 0.5, 1, 2)
    assert not asked.public
    assert not asked.vary_mechanism
    assert names(read("seeds = [0, 1]\n")) == ["base,seed=0", "base,seed=1"]


def test_named_runs_stand_beside_the_grid_and_over_the_base(read):
    asked = read('[base]\nrounds = 4\n[grid]\nepsilon = [1]\n[[run]]\nname = "open"\nprivacy = "off"\n')
    assert [run.name for run in asked.runs] == ["epsilon=1,seed=0", "open,seed=0"]
    assert [run.config.privacy for run in asked.runs] == ["on", "off"]
    assert {run.config.rounds for run in asked.runs} == {4}
    assert "NOT PRIVATE" in asked.runs[1].notes[0]


def test_names_are_those_of_files(read):
    asked = read('[grid]\npartition-sizes = ["", "7,8", "7/8"]\n')
    assert [run.name for run in asked.runs] == [
        "partition-sizes=none,seed=0",
        "partition-sizes=7-8,seed=0",
        "partition-sizes=7-8~2,seed=0",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("seed = [0]\n", "seed: unknown key; did you mean seeds?"),
        ("epsilon = [1]\n", "epsilon: unknown key; known keys are config, seeds"),
        ("[grid]\nepsilom = [1]\n", "[grid] epsilom: unknown key of a run config; did you mean epsilon?"),
        ("[grid]\nxyzzy = [1]\n", "[grid] xyzzy: unknown key of a run config; fl-dp keys lists them."),
        ("[grid]\nepsilon = 1\n", "[grid] epsilon = 1: expected a list"),
        ("[grid]\nepsilon = []\n", "[grid] epsilon = []: expected a list"),
        ("[grid]\nepsilon = [[1]]\n", "[grid] epsilon = [1]: expected one number"),
        ("[grid]\nepsilon = [-1]\n", "epsilon=-1: epsilon = -1: expected a number > 0"),
        ('[grid]\nepsilon = ["x"]\n', "epsilon=x: epsilon = 'x': expected "),
        ('[grid]\nmodel = ["linaer"]\n[base]\nmodel = "mlp"\n', "[base] model: model=linaer sets it as well"),
        ("[grid]\nseed = [1]\n", "[grid] seed: the sweep sets this key; seeds = [0, 1]"),
        ('[base]\nout = "x"\n', "[base] out: the sweep sets this key"),
        ("seeds = []\n", "seeds = []: expected a list"),
        ("seeds = [0, -1]\n", "seeds: -1: expected an integer from 0"),
        ("seeds = [1, 1]\n", "a seed appears twice"),
        ("seeds = [true]\n", "seeds: True: expected an integer"),
        ("public = 1\n", "public = 1: expected true or false"),
        ("[[run]]\nepsilon = 1\n", "[[run]] 1 name = None: expected at most 80 letters"),
        ('[[run]]\nname = "../x"\n', "[[run]] 1 name = '../x': expected at most 80 letters"),
        ('[[run]]\nname = "a"\n[[run]]\nname = "a"\nepsilon = 1\n', "'a': two runs have this name"),
        ("[run]\nepsilon = 1\n", "[run]: write [[run]]"),
        ("[grid]\nepsilon = [1, 1.0]\n", "has the same settings as epsilon=1,seed=0"),
        (f"seeds = {list(range(1001))}\n", "1001 runs: expected at most 1000"),
    ],
)
def test_every_mistake_is_named(read, text, expected):
    with pytest.raises(ConfigError, match=re.escape(expected)) as error:
        read(text)
    assert "sweep.toml: " in str(error.value)


def test_the_config_is_looked_for_beside_the_file_then_here_then_among_those_shipped(tmp_path, monkeypatch):
    places = [tmp_path / name for name in ("beside", "here/configs", "shipped")]
    for number, place in enumerate(places, 1):
        place.mkdir(parents=True)
        (place / f"c{number}.toml").write_text(f"rounds = {number}\n")
    monkeypatch.chdir(tmp_path / "here")
    file = places[0] / "s.toml"
    for number, name in ((1, "c1.toml"), (2, "configs/c2.toml"), (3, "configs/c3.toml"), (3, "c3.toml")):
        file.write_text(f'config = "{name}"\n')
        assert read_sweep(file, places[2]).runs[0].config.rounds == number
    file.write_text('config = "other/c3.toml"\n')
    with pytest.raises(ConfigError, match=r"config = 'other/c3.toml': no such file"):
        read_sweep(file, places[2])
