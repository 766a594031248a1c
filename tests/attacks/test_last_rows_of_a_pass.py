"""Arithmetic by place: the last numbers of a pass go through another sigmoid than all others.

PyTorch computes functions in vectors, and the fewer than 32 numbers that are left over with another
exponential; for some logits the last bit differs. The server makes the gradients of two labels cancel exactly
in vectors. At the end of a pass they leave a last bit, times a weight of 2^18 and an input of 10^4. With
Alice in front, one record of each pass moves into its end, and one out of it: she moved the sum of 1,023
records by 84 C. The loss was PyTorch's binary cross-entropy; models with such functions are refused at the
start.
"""

import pytest
import torch
import torch.nn.functional as F
from moving import SEEN, moved
from objectives import objective_for
from torch import Tensor, nn
from trainers import plan_of, trainer_for

from fl_dp.data.tensor_data import TensorData
from fl_dp.form import Form
from fl_dp.training.objective import Objective
from fl_dp.training.private import PrivateTrainer

# Vectors take 32 numbers at once (AVX-512) or 16 (AVX2): of 24 rows of three logits both leave the first
# logits of the last two rows.
FORM, RECORDS, ROWS, IN_VECTORS = Form((8,), 3, targets="numbers"), 1023, 24, 22


def _logit() -> tuple[Tensor, Tensor]:
    """One whose sigmoid is another at the end of a tensor, and its sigmoid in vectors."""
    logits = torch.linspace(-2, 2, 4001)
    at_an_end = torch.cat([torch.sigmoid(few.contiguous()) for few in logits.split(31)])
    in_vectors = torch.sigmoid(logits)
    (differ,) = (at_an_end[:3968] != in_vectors[:3968]).nonzero(as_tuple=True)
    if not len(differ):
        pytest.skip("this build has one sigmoid for all places")
    return logits[differ[0]], in_vectors[differ[0]]


def _trainer(objective: Objective) -> PrivateTrainer:
    model = nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 3))
    trainer: PrivateTrainer = trainer_for(model, objective, plan_of(expected_batch_size=1024))
    logit, probability = _logit()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model[2].bias[0] = logit
        model[2].weight[0] = 2.0**18
        model[2].weight[1] = -(2.0**19) * probability  # the others are 0, their sigmoid a half
    return trainer


def _records() -> TensorData:
    """Those that move into the end of a pass, and those that move out of it, pull opposite ways."""
    place = (torch.arange(RECORDS) - 1) % ROWS  # without Alice, who is the first
    signs = (place == ROWS - 1).float() - (place == IN_VECTORS - 1).float()
    return TensorData(1e4 * signs[:, None] * torch.rand(8), torch.zeros(RECORDS, 3), ("0", "1", "2"))


def _of_pytorch(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(outputs, targets, reduction="none").mean(1)


def test_a_record_in_front_moves_the_others_by_84_bounds():
    attacked = Objective(lambda model, batch: _of_pytorch(model(batch[0]), batch[1]), FORM)
    assert moved(_trainer(attacked), _records(), 0, ROWS).excess > 50


def test_and_by_none_with_the_loss_that_is_shipped():
    seen = moved(_trainer(objective_for(FORM, "bce")), _records(), 0, ROWS)
    assert max(seen.excess, seen.error) < SEEN
