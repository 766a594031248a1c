"""A client of one SuperLink's Control API: what `flwr run` and `flwr ls` do, without their processes."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
from flwr.common.constant import Status, SubStatus
from flwr.common.serde import fab_to_proto, user_config_to_proto
from flwr.proto.control_pb2 import ListNodesRequest, ListRunsRequest, StartRunRequest
from flwr.proto.federation_config_pb2 import SimulationConfig
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

from fl_dp.config.flat import Scalar
from fl_dp.errors import LaunchError


@dataclass(frozen=True)
class FlowerRunStatus:
    """Flower's status of a run. details: the ServerApp's error, if it raised one."""

    finished: bool
    completed: bool
    details: str


class ControlClient:
    """Asks the SuperLink at `address` (host:port); without `root_certificates`, in plain HTTP."""

    def __init__(self, address: str, root_certificates: Path | None = None) -> None:
        self.address = address
        self._client = ControlHttpClient.from_server_address(
            server_address=address,
            insecure=root_certificates is None,
            root_certificates=None if root_certificates is None else root_certificates.read_bytes(),
            interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr CLI")],
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def live_nodes(self) -> int:
        """Number of SuperNodes that are connected now."""
        with self._errors():
            nodes = self._client.ListNodes(ListNodesRequest()).nodes_info
        return sum(node.status == "online" for node in nodes)

    def start_run(
        self, bundle: bytes, config: Mapping[str, Scalar], simulation: SimulationConfig | None
    ) -> int:
        """Submit the app `bundle` with run config `config`; returns the run's id."""
        fab = Fab(hashlib.sha256(bundle).hexdigest(), bundle, {})
        request = StartRunRequest(
            fab=fab_to_proto(fab),
            override_config=user_config_to_proto(dict(config)),
            override_federation_config=simulation,
        )
        with self._errors():
            response = self._client.StartRun(request)
        if not response.HasField("run_id"):
            raise LaunchError(f"The SuperLink at {self.address} did not start the run.")
        return response.run_id

    def status(self, run_id: int) -> FlowerRunStatus:
        with self._errors():
            run = self._client.ListRuns(ListRunsRequest(run_id=run_id)).run_dict[run_id]
        return FlowerRunStatus(
            finished=run.status.status == Status.FINISHED,
            completed=run.status.sub_status == SubStatus.COMPLETED,
            details=run.status.details,
        )

    def _errors(self) -> "_RequestErrors":
        return _RequestErrors(self.address)


@dataclass(frozen=True)
class _RequestErrors:
    """Turns a failed request into a LaunchError that names the SuperLink."""

    address: str

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, httpx.HTTPError):
            raise LaunchError(f"The SuperLink at {self.address} does not answer: {error!r}.") from error
