"""Security events of a server: who was refused, from which address, and why.

They go only to the logger `fl_dp.security`, which stores nothing without a handler (`launch/logs.py`).
"""

import logging

from fl_dp.clean_text import one_line

SECURITY = "fl_dp.security"
PARTS = ("event", "who", "source", "status", "left_out")  # of a record; the handler sets left_out

logger = logging.getLogger(SECURITY)
logger.propagate = False  # strangers can cause any number of events
logger.addHandler(logging.NullHandler())


def security_event(event: str, why: str, *, who: str = "", source: str = "", status: int = 0) -> None:
    """who: name of a site or client; empty for a stranger. source: an address. status: HTTP status."""
    logger.warning(
        "%s", one_line(why), extra={"event": event, "who": one_line(who), "source": source, "status": status}
    )
