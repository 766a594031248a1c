"""Which arrays a round's messages hold, as both sides know before any arrives."""

from typing import TYPE_CHECKING

from fl_dp.federation.wire.arrays import ArraySpec, specs, state_arrays
from fl_dp.records import CONTROL, RoundPlan
from fl_dp.training.local_algorithm import algorithm_class, personal_names
from fl_dp.training.trainer import as_arrays, trainable

if TYPE_CHECKING:
    from torch import nn


def shared_specs(model: "nn.Module", personal: str) -> dict[str, ArraySpec]:
    """The specs of the trained parameters that leave a client. personal: patterns of those that never do."""
    all_of_them = specs(as_arrays(trainable(model)))
    own = personal_names(personal, tuple(all_of_them))
    return {name: spec for name, spec in all_of_them.items() if name not in own}


def control_specs(shared: dict[str, ArraySpec], algorithm: str) -> dict[str, ArraySpec]:
    """The specs of a local algorithm's control variates; most algorithms have none."""
    return {CONTROL + name: spec for name, spec in shared.items()} if is_controlled(algorithm) else {}


def is_controlled(algorithm: str) -> bool:
    """Whether the local algorithm has control variates."""
    return algorithm_class(algorithm).controlled


def received_specs(model: "nn.Module", plan: RoundPlan) -> dict[str, ArraySpec]:
    """The specs of all arrays in a round's message to a client."""
    shared = shared_specs(model, plan.personal)
    return specs(state_arrays(model)) | control_specs(shared, plan.local_algorithm)
