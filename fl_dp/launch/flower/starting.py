"""Starts a SuperLink and SuperNodes; they are ready when the call returns."""

import re
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from fl_dp.errors import LaunchError
from fl_dp.federation.client.settings import CONFIG_KEY
from fl_dp.launch.flower.control import ControlClient
from fl_dp.launch.flower.log_tail import tail
from fl_dp.launch.flower.processes import Processes

SUPERLINK = "superlink"
START_SECONDS = 180.0
_ATTEMPTS = 5
_POLL_SECONDS = 0.1
# uvicorn's words, looked for in the process's own log: another process may be answering on the port.
_SERVING = "Uvicorn running on"
_TAKEN = re.compile("address already in use", re.IGNORECASE)


def start_superlink(
    processes: Processes, env: Mapping[str, str], log: Path, options: Sequence[str], host: str, port: int
) -> str:
    """Start a SuperLink that serves on `host`, on a free port if `port` is 0; returns host:port."""
    for _ in range(_ATTEMPTS):
        chosen = port or free_ports(1)[0]
        command = ["flower-superlink", "--host", host, "--port", str(chosen), *options]
        processes.start(SUPERLINK, command, env, log)
        if _serves(processes, SUPERLINK, log):
            return f"{host}:{chosen}"
        if port:
            break
    raise LaunchError(f"{host}:{port or 'any port'} is taken; name another address. Log: {log}")


def start_supernodes(
    processes: Processes,
    env: Mapping[str, str],
    logs: Mapping[str, Path],
    options: Mapping[str, Sequence[str]],
) -> None:
    """Start one SuperNode for every name in `options`; returns when all serve their own port."""
    waiting = list(options)
    for _ in range(_ATTEMPTS):
        for name, port in zip(waiting, free_ports(len(waiting)), strict=True):
            command = ["flower-supernode", "--port", str(port), *options[name]]
            processes.start(name, command, env, logs[name])
        waiting = [name for name in waiting if not _serves(processes, name, logs[name])]
        if not waiting:
            return
    raise LaunchError(f"{', '.join(waiting)}: no free port on this machine after {_ATTEMPTS} attempts.")


def supernode_options(
    client_config: Path, superlink: str, security: Sequence[str] = ("--insecure",)
) -> list[str]:
    """Arguments of the SuperNode of the client that `client_config` describes.

    Flower splits the node config at quotes, so that the path may hold spaces but no single quote.
    """
    if "'" in str(client_config):
        raise LaunchError(
            f"{client_config}: Flower cannot take a path with a single quote; name another folder."
        )
    return ["--superlink", superlink, *security, "--node-config", f"{CONFIG_KEY}='{client_config}'"]


def wait_for_nodes(
    control: ControlClient, nodes: int, processes: Processes, logs: Mapping[str, Path]
) -> None:
    """Return when `nodes` SuperNodes are connected; LaunchError when one of `logs` ends before that."""
    deadline = time.monotonic() + START_SECONDS
    while control.live_nodes() < nodes:
        for name, log in logs.items():
            check_running(processes, name, log)
        if time.monotonic() > deadline:
            raise LaunchError(f"Not all of {nodes} clients connected within {START_SECONDS:.0f} s.")
        time.sleep(_POLL_SECONDS)


def check_running(processes: Processes, name: str, log: Path) -> None:
    """LaunchError, with the end of its log, when the process `name` has ended."""
    code = processes.exit_code(name)
    if code is not None:
        raise LaunchError(f"{name} {ended(code)}. The end of its log, {log}:\n{tail(log)}")


def ended(code: int) -> str:
    """How a process ended, in words."""
    return f"stopped (signal {-code})" if code < 0 else f"stopped (exit code {code})"


def free_ports(count: int) -> list[int]:
    """Loopback ports that are free now. Another process may take one first, so callers try again."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _serves(processes: Processes, name: str, log: Path) -> bool:
    """True once the process serves its port, False when the port was taken; LaunchError if it just ends."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        code = processes.exit_code(name)  # asked first: the log of one that has ended is complete
        text = log.read_text(encoding="utf-8", errors="replace")
        if code is None and _SERVING in text:
            return True
        if code is not None and _TAKEN.search(text):
            return False
        if code is not None:  # asked again, it could have ended since, and its log said why
            check_running(processes, name, log)
        time.sleep(_POLL_SECONDS)
    raise LaunchError(f"{name} was not ready within {START_SECONDS:.0f} s. Its log: {log}")
