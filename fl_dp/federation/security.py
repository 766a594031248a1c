"""Security events of a server: who was refused or banned, from where, and why.

They go to the logger `fl_dp.security` alone, which keeps nothing unless somebody listens (`launch/logs.py`).
"""

import logging

from fl_dp.clean_text import one_line

SECURITY = "fl_dp.security"
PARTS = ("event", "who", "source", "status", "left_out")  # of a record; left_out is set by who keeps them

logger = logging.getLogger(SECURITY)
logger.propagate = False  # strangers cause as many as they like
logger.addHandler(logging.NullHandler())


def security_event(event: str, why: str, *, who: str = "", source: str = "", status: int = 0) -> None:
    """who: a site or client, by its name; empty for a stranger. source: an address. status: of HTTP."""
    logger.warning(
        "%s", one_line(why), extra={"event": event, "who": one_line(who), "source": source, "status": status}
    )
