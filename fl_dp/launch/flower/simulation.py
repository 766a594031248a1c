"""The settings of Flower's Ray simulation: how many clients, and how many of them at a time."""

from pathlib import Path

from flwr.proto.federation_config_pb2 import SimulationConfig

from fl_dp.config.flat import AUTO
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.federation.client.settings import TEMPLATE_VARIABLE
from fl_dp.launch.flower.environment import cores, thread_settings


def clients_at_once(config: RunConfig, available: int) -> int:
    """Simulated clients that fit on `available` cores; ConfigError when not even one does."""
    at_once = int(available * _per_core(config))
    if at_once < 1:
        raise ConfigError(f"clients-per-cpu = {config.clients_per_cpu}: this machine has {available} cores.")
    return min(at_once, config.clients)


def check_resources(config: RunConfig) -> None:
    """ConfigError when this machine lacks what a single simulated client needs."""
    clients_at_once(config, cores())
    if config.clients_per_gpu != AUTO:
        import torch

        if not torch.cuda.is_available():
            raise ConfigError(f"clients-per-gpu = {config.clients_per_gpu}: this machine has no usable GPU.")


def simulation_settings(config: RunConfig) -> SimulationConfig:
    """Flower's settings for `config` on this machine's cores.

    Flower accepts only whole cores per client. To Ray a core is a unit of bookkeeping, so here it stands for
    one client: Ray gets as many as clients may run at once. "auto" is one client per core and no GPU, because
    what fits on a GPU is not measured here.
    """
    return SimulationConfig(
        num_supernodes=config.clients,
        client_resources_num_cpus=1,
        client_resources_num_gpus=0.0
        if config.clients_per_gpu == AUTO
        else 1 / float(config.clients_per_gpu),
        init_args_num_cpus=clients_at_once(config, cores()),
    )


def simulation_environment(config: RunConfig, template: Path, ray_folder: Path) -> dict[str, str]:
    """The environment of the simulation's processes; Ray's workers inherit it.

    ray_folder: where Ray keeps its sockets, a folder of this launch alone. Its path must be short: that of a
    socket may have 107 characters.
    """
    return {
        TEMPLATE_VARIABLE: str(template),
        "RAY_TMPDIR": str(ray_folder),
        "RAY_ADDRESS": "",
        **thread_settings(max(1, int(1 / _per_core(config)))),
    }


def _per_core(config: RunConfig) -> float:
    return 1.0 if config.clients_per_cpu == AUTO else float(config.clients_per_cpu)
