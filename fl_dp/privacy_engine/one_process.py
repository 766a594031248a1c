"""Several processes are refused unless `ranks=` names them; wrappers that spread a model always are."""

import torch.distributed
from torch import nn

from fl_dp.errors import ConfigError

# Class names of wrappers, of torch, Opacus and others, that spread a model over processes or devices.
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
    "Train in one process, without torchrun and init_process_group, where batches that do not fit the memory "
    "are cut by PoissonSampler(physical_batch_size=...) and optimizer.virtual_step; or give "
    "PrivacyEngine(..., ranks='all')."
)


def check_one_process() -> None:
    """ConfigError if torch.distributed is initialised for more than one process.

    Without `ranks=` the engine sets gradients after the backward pass, where nothing averages them over
    processes. Each process would train its own weights, with its own noise, and price only its own steps.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return
    if (size := torch.distributed.get_world_size()) > 1:
        raise ConfigError(
            f"torch.distributed runs {size} processes, and this PrivacyEngine trains in one: their clipped "
            f"sums are not added up, so that their weights would drift apart. {_INSTEAD}"
        )


def check_not_spread(module: nn.Module) -> None:
    """ConfigError for a model that is spread by a wrapper, whole or in part."""
    for name, part in module.named_modules():
        for kind in type(part).__mro__:
            if kind.__name__ in _WRAPPERS:
                where = f"{name} of the model" if name else "The model"
                raise ConfigError(
                    f"{where} is in {kind.__name__}, and PrivacyEngine itself adds up gradients after it "
                    f"has clipped them; give it the model without the wrapper. {_INSTEAD}"
                )
