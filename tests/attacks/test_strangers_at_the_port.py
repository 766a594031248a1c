"""Strangers who reach a server's port, with Flower's own clients, the public certificate and our code.

Before there was a door each of these got what it wanted: code on the server, a node in the run, a token.
"""

import socket
import ssl
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from federation.link.wired import Federation
from flwr.common.serde import fab_to_proto
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    RegisterNodeRequest,
    StartRunRequest,
    StopRunRequest,
    UnregisterNodeRequest,
)
from flwr.proto.fleet_pb2 import ActivateNodeRequest, RegisterNodeFleetRequest, UnregisterNodeFleetRequest
from flwr.proto.runtime_pb2 import AcquireTaskRequest, GetNodesRequest, PullAppMessagesRequest
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

NOBODY = generate_key_pairs()
PUBLIC = public_key_to_bytes(NOBODY[1])
CODE = Fab("0" * 64, b"code", {})

ATTACKS: list[tuple[Any, str, Any]] = [
    (ControlHttpClient, "StartRun", StartRunRequest(fab=fab_to_proto(CODE))),
    (ControlHttpClient, "StopRun", StopRunRequest(run_id=1)),
    (ControlHttpClient, "ListNodes", ListNodesRequest()),
    (ControlHttpClient, "RegisterNode", RegisterNodeRequest(public_key=PUBLIC)),
    (ControlHttpClient, "UnregisterNode", UnregisterNodeRequest(node_id=1)),
    (RuntimeHttpClient, "AcquireTask", AcquireTaskRequest()),
    (RuntimeHttpClient, "GetNodes", GetNodesRequest()),
    (RuntimeHttpClient, "PullMessages", PullAppMessagesRequest()),
    (FleetHttpClient, "RegisterNode", RegisterNodeFleetRequest(public_key=PUBLIC)),
    (FleetHttpClient, "UnregisterNode", UnregisterNodeFleetRequest(node_id=1)),
    (FleetHttpClient, "ActivateNode", ActivateNodeRequest(public_key=PUBLIC, heartbeat_interval=30)),
]


@pytest.mark.parametrize(
    ("kind", "call", "request_"), ATTACKS, ids=[f"{kind.__name__}.{call}" for kind, call, _ in ATTACKS]
)
@pytest.mark.parametrize("signed", [False, True], ids=["unsigned", "signed as Flower signs"])
def test_a_stranger_with_flowers_own_client_gets_nothing(
    linked: Federation, kind: Any, call: str, request_: Any, signed: bool
) -> None:
    honest = linked.joined("north")
    client = kind.from_server_address(
        linked.address,
        insecure=False,
        root_certificates=linked.server.roster.certificate.encode(),
        interceptors=[NodeAuthHttpInterceptor(*NOBODY)] if signed else [],
    )
    with closing(client), pytest.raises(httpx.HTTPStatusError) as error:
        getattr(client, call)(request_)
    assert error.value.response.status_code == 401
    assert error.value.response.text == "not signed"
    assert linked.hub.here() == [linked.node("north")]
    assert len(linked.hub.state.get_run_info()) == 1
    assert linked.answer("north", honest).has_content()  # nobody was disturbed


def test_without_tls_there_is_nobody(linked: Federation) -> None:
    """The port of run.sh is such a one, too: any local user reaches it."""
    with socket.create_connection(("127.0.0.1", linked.port), timeout=5) as plain:
        plain.sendall(b"POST /v1/control/start-run HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        assert b"HTTP" not in plain.recv(1000)


def test_a_local_user_who_trusts_anybody_is_a_stranger_all_the_same(linked: Federation) -> None:
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    with httpx.Client(verify=trusting) as client:
        for path in (
            "/docs",
            "/openapi.json",
            "/health",
            "/v1/control/start-run",
            "/v1/runtime/acquire-task",
        ):
            for ask in (client.get, client.post):
                answer: Callable[..., Any] = ask
                found = answer(f"https://{linked.address}{path}")
                assert (found.status_code, found.text) == (401, "not signed")


def test_the_keys_of_a_launch_are_its_owners_alone(linked: Federation) -> None:
    """Whoever could read them could join."""
    folder: Path = linked.server.folder.parent
    for path in (folder, linked.server.folder, *(kit.folder for kit in linked.sites.values())):
        assert path.stat().st_mode & 0o077 == 0
    for key in folder.rglob("*.key"):
        assert key.stat().st_mode & 0o777 == 0o600
