"""A small client's step: both kinds are taken, and their ratios are those of a turn."""

import json

from benchmarks.small_step import main


def test_ratios_and_milliseconds_belong_together(tmp_path, capsys):
    out = tmp_path / "found.json"
    main(["--models", "linear", "--turns", "5", "--rows", "24", "--clock", "cpu", "--json", str(out)])
    found = json.loads(out.read_text())["linear"]
    assert found["rows"] == 24
    assert 0 < found["noise, ms"] < found["private, ms"]
    assert 0 < found["floor / plain"] < found["private / plain"]
    assert "| linear |" in capsys.readouterr().out
