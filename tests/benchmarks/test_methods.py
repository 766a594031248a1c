"""The table of methods: whose figure counts, in percent, by budget."""

import pandas as pd

from benchmarks.methods import METHODS, by_rule, parser, summary
from fl_dp.launch.defaults import CHOSEN


def test_a_method_with_own_models_has_no_common_figure():
    rows = [
        ("FedAvg", 1.0, 0.5, 0.4),
        ("FedAvg", 1.0, 0.7, 0.6),
        ("alone", 1.0, 0.1, 0.8),
        ("alone", 1.0, 0.2, 0.9),
    ]
    runs = pd.DataFrame(rows, columns=["method", "budget", "accuracy", "local accuracy"])
    *_, fedavg, alone = summary(runs).splitlines()
    assert fedavg.split() == ["|", "FedAvg", "|", "60.0", "±", "10.0", "|", "50.0", "±", "10.0", "|"]
    assert alone.split() == ["|", "alone", "|", "|", "85.0", "±", "5.0", "|"]


def test_settings_of_a_method_are_those_of_the_rule():
    options = parser().parse_args(["--passes", "2"])
    found = by_rule({"data": "digits", **METHODS["FedProx"]}, options)
    assert set(found) == set(CHOSEN)
    assert found["rounds"] * found["local_epochs"] <= 2
