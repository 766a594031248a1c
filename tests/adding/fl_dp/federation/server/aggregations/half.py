"""Half written: it combines nothing."""

from fl_dp.federation.server.aggregation import Aggregation


class Half(Aggregation):
    pass


AGGREGATION = Half
