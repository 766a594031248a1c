import os
import signal
from collections.abc import Iterator

import pytest

from fl_dp.cli.signals import stop_on_signals


@pytest.fixture(autouse=True)
def _not_under_nohup() -> Iterator[None]:
    """Pytest itself may have been started with SIGHUP ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_stops_and_later_ones_do_not_disturb_the_clean_up(sent):
    before = signal.getsignal(sent)
    cleaned = []

    def launch() -> None:
        with stop_on_signals():
            try:
                os.kill(os.getpid(), sent)
            finally:
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), sent)
                cleaned.append(True)

    with pytest.raises(KeyboardInterrupt):
        launch()
    assert cleaned
    assert signal.getsignal(sent) == before


def test_under_nohup_a_closed_terminal_stops_nothing():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signals():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
