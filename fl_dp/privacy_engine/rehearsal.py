"""A made-up batch before the first payment: what every batch would be refused for then costs nothing."""

from collections.abc import Callable

import torch
from torch import Tensor

from fl_dp.engine.clipping import check_losses
from fl_dp.engine.tracing.harness import batch_of
from fl_dp.engine.tracing.synthetic import synthetic
from fl_dp.errors import FlDpError
from fl_dp.privacy_engine.draw_loader import DrawLoader, secret_masks
from fl_dp.privacy_engine.model_check import ModelCheck

_ROWS = (0, 1, 2, 0, 1, 2, 0, 1)  # of the made-up examples; 8, as few other tensors are so long


def rehearse(loader: DrawLoader, losses_of: Callable[..., Tensor], check: ModelCheck) -> None:
    """Raise what losses and model are refused for on a batch of the loader's form, in which no value is real.

    The first real batch is checked as if there had been none. If the user's own code raises, as it may on
    values that are not real, or for a batch that the loop takes apart, nothing is known before that batch.
    """
    device = check.device
    with secret_masks(device), torch.enable_grad(), check.rehearsing():
        like = loader.of_first_record(len(_ROWS))
        given = batch_of(tuple(like) if isinstance(like, list | tuple) else (like,), {})
        made = synthetic(given, truth=True).rows(_ROWS).mapped(lambda tensor: tensor.to(device), len(_ROWS))
        try:
            check_losses(losses_of(*made.args))
        except FlDpError:
            raise
        except Exception:
            return
        check.check_called()
