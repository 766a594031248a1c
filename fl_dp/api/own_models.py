"""Reads the own parameters of the sites of a simulated run from its folder, as data."""

from torch import Tensor

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.federation.client.kept_states import FOLDER, KeptStates
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.training.kept import OWN, read_state
from fl_dp.training.local_algorithm import has_own_models


def check_own_models(settings: RunConfig, client: int) -> None:
    """Raise ConfigError unless the run has that client, and clients have parameters of their own."""
    if not has_own_models(settings.local_algorithm, settings.personal):
        raise ConfigError(
            f"local-algorithm = {settings.local_algorithm!r}, without personal parameters: the run's clients "
            "have no model of their own; see local-algorithm = mr-mtl and personal."
        )
    if not 0 <= client < settings.clients:
        raise ConfigError(f"client {client}: the run's clients are 0 to {settings.clients - 1}.")


def own_parameters(folder: RunFolder, client: int) -> dict[str, Tensor]:
    """The client's own parameters after its last round, by name; none if it was never chosen.

    ConfigError if the folder holds no client's parameters.
    """
    kept = folder.clients / FOLDER
    if not kept.is_dir():
        raise ConfigError(
            f"{kept}: no such folder; only simulations by Ray leave their clients' own models in the run's "
            "folder. Other sites keep theirs beside their ledgers: client.py --evaluate measures them."
        )
    own: dict[str, Tensor] = read_state(KeptStates(kept).last(str(client))).get(OWN, {})
    return own
