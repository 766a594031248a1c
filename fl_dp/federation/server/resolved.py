"""What each `auto` of a run config became: the twin of config.toml that names numbers."""

import dataclasses
from collections.abc import Collection
from typing import Any

from fl_dp.config.flat import AUTO
from fl_dp.config.run import RunConfig
from fl_dp.federation.devices import find_device
from fl_dp.federation.server.aggregating import Aggregating
from fl_dp.federation.server.client_record import ClientRecord
from fl_dp.federation.server.planning import participations


def resolved(config: RunConfig, clients: Collection[ClientRecord], aggregating: Aggregating) -> RunConfig:
    """The config with a value wherever one value holds for the server and all `clients`.

    What differs between clients stays "auto" (rounds.jsonl has each client's), and so does what each machine
    decides for itself: sizes of memory, and how many train at a time.
    """
    noises = {one.mechanism.noise_multiplier for one in clients if one.mechanism and one.mechanism.private}
    found = {
        "noise_multiplier": _the_one(noises),
        "delta": _the_one({one.profile.delta for one in clients}),
        "participations": participations(config),
        "min_updates": aggregating.least_updates(config.fit_clients),
        "server_learning_rate": aggregating.server_learning_rate,
        "device": find_device(config.device).type,
    }
    changes = {key: value for key, value in found.items() if value is not None}
    return dataclasses.replace(config, **{k: v for k, v in changes.items() if getattr(config, k) == AUTO})


def _the_one(values: Collection[float]) -> Any:
    return next(iter(values)) if len(values) == 1 else None
