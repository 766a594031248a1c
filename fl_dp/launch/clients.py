"""Every client's own settings, as a file on its disk, and the process that starts clients from it."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import tomli_w

from fl_dp.accounting.ledger.files import ledger_file
from fl_dp.config.client import USUAL_IN_A_SUM, ClientConfig
from fl_dp.config.flat import AUTO
from fl_dp.config.run import RunConfig
from fl_dp.durable_files import private_folder, write_whole
from fl_dp.launch.processes import Processes

_SHARED = (  # with the settings of the data
    "epsilon",
    "delta",
    "accountant",
    "evaluate_epsilon",
    "arithmetic",
    "physical_batch_size",
    "memory_mib",
    "device",
)


def client_config(config: RunConfig, client: int, ledger: Path, *, one_run: bool = False) -> ClientConfig:
    """Settings of client number `client` in a run whose clients all live on this machine.

    Its limits are the values of the run config: it declines a server that asks for more. A run without
    privacy is allowed, because whoever starts it also operates its clients. one_run: the ledger was made for
    this run alone.
    """
    noise = config.noise_multiplier
    least = 0.0 if noise == AUTO else float(noise)
    return ClientConfig(
        client=str(client),
        ledger=str(ledger_file(ledger)),
        one_run_ledger=one_run,
        partition_id=client,
        num_partitions=config.clients,
        min_noise_multiplier=least,
        allow_unprotected=not config.private,
        allow_secure_sum=USUAL_IN_A_SUM if config.secure else 0,
        secure_most_dropouts=config.secure_dropouts,
        secure_least_colluders=config.secure_colluders,
        max_grad_norm=config.max_grad_norm,
        **config.of_task(),
        **{key: getattr(config, key) for key in _SHARED},
    )


def write_client_files(config: RunConfig, folder: Path, ledger: Path, *, one_run: bool = False) -> list[Path]:
    """One file per client: `folder`/<k>.toml."""
    return [
        write_client_file(client_config(config, client, ledger, one_run=one_run), folder / f"{client}.toml")
        for client in range(config.clients)
    ]


def write_client_file(config: ClientConfig, path: Path) -> Path:
    """Write `config` to `path`, readable by its owner alone; makes the folder and returns `path`."""
    private_folder(path.parent)
    write_whole(path, lambda file: tomli_w.dump(config.to_flat(), file), secret=True)
    return path


@dataclass(frozen=True, slots=True)
class ClientStart:
    """One client. settings, kit, log: paths. server: HOST:PORT; empty: the addresses in the kit's roster.

    events: the file to which it writes its events.
    """

    name: str
    settings: str
    kit: str
    server: str
    log: str
    events: str
    once: bool = False


def start_clients(
    processes: Processes,
    name: str,
    clients: Sequence[ClientStart],
    env: dict[str, str],
    file: Path,
    log: Path,
) -> None:
    """Start the clients as the process `name`, listed in `file`; `log` is the log of the shared process."""
    content = json.dumps([asdict(client) for client in clients]).encode()
    write_whole(file, lambda target: target.write(content), secret=True)
    command = [sys.executable, "-P", "-m", "fl_dp.launch.client_processes", str(file)]
    processes.start(name, command, env, log)
