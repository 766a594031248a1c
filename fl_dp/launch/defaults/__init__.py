"""Settings chosen by a fixed rule from the public facts of a run: see docs/planning.md."""

from collections.abc import Iterable

from fl_dp.config.values import key_of
from fl_dp.errors import ConfigError

CHOSEN = (
    "rounds",
    "local_epochs",
    "expected_batch_size",
    "physical_batch_size",
    "learning_rate",
    "optimizer_settings",
    "server_optimizer",
    "optimizer_state",
    "max_grad_norm",
    "noise_multiplier",
)


def check_open(keys: Iterable[str]) -> None:
    """Raise ConfigError for a key that the rule chooses: the rule would override the given value."""
    for key in keys:
        if key in map(key_of, CHOSEN):
            raise ConfigError(
                f"{key}: the rule chooses it; for another value, change it in the config that fl-dp "
                "plan writes."
            )
