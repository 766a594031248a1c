"""Whoever does not get as far as HTTP gives its place back, whatever went wrong."""

import asyncio
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from fl_dp.federation.link.listener import _Server


@pytest.mark.parametrize(
    ("error", "raised"), [(OSError("no TLS"), None), (ValueError("no certificate"), ValueError)]
)
def test_a_place_is_free_again(error: Exception, raised: type[Exception] | None) -> None:
    left: list[Any] = []

    def context() -> None:
        raise error

    server: Any = SimpleNamespace(
        _places=SimpleNamespace(leave=left.append), _certificate=SimpleNamespace(context=context)
    )
    stranger, made = socket.socketpair()
    with stranger:
        stranger.send(b"\x16")
        made.setblocking(False)
        attempt = _Server._agree(server, made, "its place")  # type: ignore[arg-type]
        if raised is None:
            asyncio.run(attempt)
        else:
            with pytest.raises(raised):
                asyncio.run(attempt)
    assert left == ["its place"]
    assert made.fileno() == -1
