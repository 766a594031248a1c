"""A launch ends in one way, whether by Ctrl-C, a closed terminal or SIGTERM."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """Within the block, the first of the stopping signals raises KeyboardInterrupt.

    Later ones are ignored: they would interrupt the clean-up that the first one started.
    """
    stopping = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopping
        if not stopping:
            stopping = True
            raise KeyboardInterrupt

    before = {one: signal.getsignal(one) for one in _STOPPING}
    for one, handler in before.items():
        if one != signal.SIGHUP or handler != signal.SIG_IGN:  # under nohup, ignore a closed terminal
            signal.signal(one, stop)
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
