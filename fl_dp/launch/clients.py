"""Every client's own settings, as a file on its disk."""

import dataclasses
from pathlib import Path

import tomli_w

from fl_dp.config import AUTO, ClientConfig, RunConfig
from fl_dp.federation.client_settings import PLACEHOLDER

_SHARED = (
    "data", "data_root", "partition", "partition_alpha", "partition_classes", "partition_sizes",
    "seed", "epsilon", "delta", "accountant", "physical_batch_size", "memory_mib", "device",
    "max_grad_norm",
)  # fmt: skip


def client_config(config: RunConfig, client: int, ledger: Path) -> ClientConfig:
    """Settings of client number `client` of a run whose clients all live on this machine.

    Its limits are what the run says that it will ask: a server that asks for more is declined.
    """
    noise = config.noise_multiplier
    return ClientConfig(
        client=str(client),
        ledger=str(ledger_file(ledger, str(client))),
        partition_id=client,
        num_partitions=config.clients,
        min_noise_multiplier=0.0 if noise == AUTO else float(noise),
        **{key: getattr(config, key) for key in _SHARED},
    )


def ledger_file(folder: Path, client: str) -> Path:
    """The ledger of one of several clients on this machine, each of which stands for a machine of its own."""
    return folder.absolute() / f"client-{client}.sqlite"


def write_client_files(config: RunConfig, folder: Path, ledger: Path) -> list[Path]:
    """One file per client: `folder`/<k>.toml."""
    return [
        write_client_file(client_config(config, client, ledger), folder / f"{client}.toml")
        for client in range(config.clients)
    ]


def write_client_template(config: RunConfig, folder: Path, ledger: Path) -> Path:
    """One file for all simulated clients; the placeholder in the ledger's path becomes a client's name."""
    first = client_config(config, 0, ledger)
    template = dataclasses.replace(first, ledger=str(ledger_file(ledger, PLACEHOLDER)))
    return write_client_file(template, folder / "simulation.toml")


def write_client_file(config: ClientConfig, path: Path) -> Path:
    """Write `config` to `path`, its folder included; returns `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(tomli_w.dumps(config.to_flat()), encoding="utf-8")
    return path
