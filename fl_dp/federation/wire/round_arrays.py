"""Which arrays a round's messages hold, as both sides know before any arrives."""

from typing import TYPE_CHECKING

from fl_dp.federation.wire.arrays import ArraySpec, specs
from fl_dp.training.local_algorithm import personal_names
from fl_dp.training.trainer import as_arrays, trainable

if TYPE_CHECKING:
    from torch import nn


def shared_specs(model: "nn.Module", personal: str) -> dict[str, ArraySpec]:
    """The specs of the trained parameters that leave a client. personal: patterns of those that never do."""
    all_of_them = specs(as_arrays(trainable(model)))
    own = personal_names(personal, tuple(all_of_them))
    return {name: spec for name, spec in all_of_them.items() if name not in own}
