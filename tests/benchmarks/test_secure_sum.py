"""The benchmark of secure sums plays a whole attempt, and counts what travels."""

import json

import pytest

from benchmarks.secure_sum import main


def test_a_small_attempt(tmp_path, capsys):
    main(["--rows", "5,1000,1", "--repeat", "1", "--json", str(tmp_path / "found.json")])
    assert "of a plain round" in capsys.readouterr().out
    (row,) = json.loads((tmp_path / "found.json").read_text())["rows"]
    assert row["bytes_up"] > 8 * 1000 + 4 * 160  # the vector, and a sealed pair of key shares for each other
    assert row["bytes_down"] > 4 * 1000 + 5 * 64 + 4 * 160
    assert row["traffic"] == pytest.approx((row["bytes_up"] + row["bytes_down"]) / 8000)
    assert min(row["client"].values()) > 0
