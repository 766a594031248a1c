"""An engine trains one model in one process; what would train it in several is refused."""

import torch.distributed
from torch import nn

from fl_dp.errors import ConfigError

# Wrappers that spread a model over processes or devices, of torch, Opacus and others, by the class's name.
_WRAPPERS = frozenset(
    {
        "DataParallel",
        "DistributedDataParallel",
        "DifferentiallyPrivateDistributedDataParallel",
        "FSDPModule",
        "FullyShardedDataParallel",
    }
)
_INSTEAD = (
    "Train in one process, without torchrun and init_process_group; batches that do not fit the memory are "
    "cut by PoissonSampler(physical_batch_size=...) and optimizer.virtual_step."
)


def check_one_process() -> None:
    """ConfigError where torch.distributed is initialised for more than one process.

    Gradients are set after the backward pass, where nothing averages them over processes: each process would
    train weights of its own, on noise and steps of its own, and price its own steps alone.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return
    if (size := torch.distributed.get_world_size()) > 1:
        raise ConfigError(
            f"torch.distributed runs {size} processes, and PrivacyEngine trains in one: their clipped sums "
            f"are not added up, so that their weights would drift apart. {_INSTEAD}"
        )


def check_not_spread(module: nn.Module) -> None:
    """`check_one_process`, and ConfigError for a model that a wrapper spreads, whole or in part."""
    check_one_process()
    for name, part in module.named_modules():
        for kind in type(part).__mro__:
            if kind.__name__ in _WRAPPERS:
                where = f"{name} of the model" if name else "The model"
                raise ConfigError(
                    f"{where} is in {kind.__name__}, and PrivacyEngine trains a model in one process, on one "
                    f"device; give it the model without the wrapper. {_INSTEAD}"
                )
