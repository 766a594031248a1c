"""What an engine checks beside the model: that it trains in one process, and the losses."""

from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from fl_dp.engine.tracing.mixing import LossesOf, MixingWatch
from fl_dp.errors import ConfigError

_LARGE = 256.0  # scales of GradScaler are larger; factors that people write are smaller
# Names of classes, of torch, Opacus and others, that wrap a model to spread it over processes or devices.
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
    "Train in one process, without torchrun and init_process_group; for batches that do not fit into memory "
    "use PoissonSampler(physical_batch_size=...) and optimizer.virtual_step. Or pass "
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
            f"torch.distributed runs {size} processes, but this PrivacyEngine trains in one: the clipped "
            f"sums of the processes are not added up, so their weights would drift apart. {_INSTEAD}"
        )


def check_not_spread(module: nn.Module) -> None:
    """ConfigError if a wrapper spreads the model, or a part of it."""
    for name, part in module.named_modules():
        for kind in type(part).__mro__:
            if kind.__name__ in _WRAPPERS:
                where = f"{name} of the model" if name else "The model"
                raise ConfigError(
                    f"{where} is wrapped in {kind.__name__}, but PrivacyEngine itself adds up the gradients "
                    f"after clipping them; pass the model without the wrapper. {_INSTEAD}"
                )


class CheckedLosses:
    """Calls `losses_of`; checks the first batch for mixing, then one batch in `every`, on average."""

    def __init__(self, losses_of: LossesOf, every: int) -> None:
        self._losses_of, self._watch = losses_of, MixingWatch(losses_of, every)
        self._made: Any = WeakIdKeyDictionary()  # losses -> what arithmetic in place would change

    def __call__(self, *batch: Any) -> Tensor:
        """The losses (N,) of a batch. Raises ProbeError where examples are seen to mix."""
        self._watch.look(*batch)
        losses = self._losses_of(*batch)
        self._made[losses] = _mark(losses)
        return losses

    def check_made_here(self, losses: Tensor) -> None:
        """ConfigError for losses computed elsewhere, or changed in place: nothing checked their mixing."""
        if not isinstance(losses, Tensor) or self._made.get(losses) != _mark(losses):
            raise ConfigError(
                "These losses do not come from engine.losses(...), or were changed since. With losses_of= "
                "the engine makes them itself, so that it can see whether examples mix: "
                "optimizer.step(loss=engine.losses(x, y))."
            )


def _mark(losses: Tensor) -> tuple[Any, bool | int]:
    return losses.grad_fn, losses.is_inference() or losses._version


def check_unscaled(losses: Tensor) -> None:
    """ConfigError for losses that were last multiplied by a large float32 tensor, as GradScaler does.

    Python's own numbers arrive in float64, so `100 * losses` is allowed.
    """
    node: Any = losses.grad_fn
    if node is None or node.name() != "MulBackward0":
        return
    for factor in (node._saved_self, node._saved_other):
        if factor is None or factor.dim() or factor.dtype != torch.float32 or not factor >= _LARGE:
            continue
        raise ConfigError(
            "The losses are multiplied by a scale, as by GradScaler: then nearly all gradients are clipped. "
            "Leave the scaler out, and pass the losses as they are (bfloat16 in place of float16)."
        )
