"""python -m benchmarks.simulation, with Flower itself: 15 s."""

import json

import pytest

from benchmarks.simulation.__main__ import main


@pytest.mark.slow
def test_a_quick_run_measures_prints_and_writes(tmp_path, capsys):
    file = tmp_path / "out.json"
    main(["--quick", "--contenders", "Flower,pfl-research", "--clients", "4", "--json", str(file)])
    found = json.loads(file.read_text())
    flower, pfl = found["outcomes"]
    assert len(flower["runs"][0]["round_seconds"]) == 3
    assert pfl["ended"][0] == "not installed"
    assert "ms a client" in capsys.readouterr().out
    assert found["versions"]["flwr"]


def test_two_rounds_tell_nothing(capsys):
    with pytest.raises(SystemExit):
        main(["--rounds", "2"])
    assert "--rounds" in capsys.readouterr().err
