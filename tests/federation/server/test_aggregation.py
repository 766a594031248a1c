"""What stands behind an aggregation's name is read, or refused."""

import pytest

from fl_dp.errors import ConfigError
from fl_dp.federation.server import aggregation
from fl_dp.federation.server.aggregation import aggregation_of
from fl_dp.federation.server.aggregations.mean import Mean


def test_an_argument_that_no_method_reads_is_refused(monkeypatch):
    """Left unread, a run would be of other numbers than its config says."""
    steps = type("Steps", (Mean,), {"argument": "STEPS"})
    monkeypatch.setattr(aggregation, "chosen_class", lambda *asked: steps)
    with pytest.raises(ConfigError, match="'mean:7': Steps has no method `take` that reads STEPS"):
        aggregation_of("mean:7")
