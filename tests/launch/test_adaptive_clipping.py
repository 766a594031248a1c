"""A run whose bound follows the gradients, from its launch to its verification."""

import json

import pytest
from launch.commands import trained

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.ledger.ledger import Ledger

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("words", [("--simulate",), ()], ids=["simulated", "own processes"])
def test_it_learns_from_a_bound_ten_times_too_large_and_its_charge_is_that_of_its_noise(words, tmp_path):
    out, ledger = tmp_path / "run", tmp_path / "ledger"
    settings = ("adaptive-clipping=quantile:0.5", "max-grad-norm=10", "rounds=2")
    trained("run", *words, "--out", str(out), "--ledger", str(ledger), settings=settings)
    found = json.loads((out / "summary.json").read_text())
    assert found["accuracy"] > 0.8  # fixed at 10 it is 0.7 and less
    with Ledger.open(ledger / "ledger.sqlite") as opened:
        spent = [one.spent() for one in opened.accounts()]
    for entries, client in zip(spent, found["clients"].values(), strict=True):
        (entry,) = entries
        assert entry.noise_multiplier == client["noise_multiplier"]
        epsilon = compute_epsilon(entries, client["delta"], "pld")
        assert epsilon == pytest.approx(client["epsilon"], rel=1e-6)
        assert epsilon <= 3.0
    trained("verify", str(out))
    page = (out / "report.html").read_text()
    assert "10 at first; it follows quantile:0.5 by a noised count" in page
