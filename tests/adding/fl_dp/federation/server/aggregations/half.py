"""Half written: it combines nothing."""

from fl_dp.federation.server.aggregation import Aggregation

AGGREGATION = type("Half", (Aggregation,), {})
