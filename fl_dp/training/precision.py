"""The precision of a step's forward and backward passes: float32, or bfloat16 where that is enough.

With "bf16", products are computed under autocast. Norms, clipping, sums and noise are not: the engine
computes them in float32 from the very numbers that the products gave. So the bound on what one record changes
is as exact as before (`fl_dp.engine.precision`). Weights stay float32.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from fl_dp.errors import ConfigError
from fl_dp.records import BF16, PRECISIONS


def check_precision(precision: str, device: torch.device) -> None:
    """ConfigError for an unknown name, and for a precision that the device does not have."""
    if precision not in PRECISIONS:
        raise ConfigError(f"precision = {precision[:64]!r}: expected {' or '.join(PRECISIONS)}.")
    if precision == BF16 and device.type == "cuda" and not torch.cuda.is_bf16_supported():
        raise ConfigError(f"precision = {precision!r}: this GPU has no bfloat16; ask for float32.")


def computed_in(precision: str, device: torch.device) -> AbstractContextManager[None]:
    """Within it, a model's passes are computed in that precision."""
    if precision != BF16:
        return nullcontext()
    context: AbstractContextManager[None] = torch.autocast(device.type, dtype=torch.bfloat16)
    return context


def in_full(losses: Tensor) -> Tensor:
    """The losses, in float32 if they came in a shorter type: their sums are then as exact as others."""
    return losses.float() if losses.dtype in (torch.bfloat16, torch.float16) else losses
