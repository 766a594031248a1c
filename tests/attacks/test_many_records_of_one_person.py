"""A person with many records, against an epsilon that speaks of persons.

The server knows the weights, every other patient's records, and that the target, if there, has 200 equal
ones. By the record the target moves a step's sum by 200 bounds, and noise of multiplier 1 hides nothing. By
the person it is one bound, and a threshold on the sum is right about as often as the theorem allows.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from trainers import plan_of, trainer_for

from fl_dp.data.persons import PersonData
from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.training.objective import Objective

BOUND, TRIALS = 0.5, 60


def patients(*, with_target: bool) -> TensorData:
    generator = torch.Generator().manual_seed(0)
    x, owners = torch.randn(20, 4, generator=generator), [f"p{k}" for k in range(20)]
    y = torch.zeros(20, dtype=torch.int64)
    if with_target:
        x = torch.cat([x, torch.full((200, 4), 3.0)])
        y = torch.cat([y, torch.ones(200, dtype=torch.int64)])
        owners += ["the target"] * 200
    return TensorData(x, y, ("no", "yes"), groups=tuple(owners))


def advantage(by_person: bool) -> float:
    """True minus false positive rate of the best threshold on what is sent along the target's gradient."""
    seen = {}
    for there in (False, True):
        records = patients(with_target=there)
        seen[there] = sent(PersonData(records, 8) if by_person else records)
    cuts = np.array(seen[False] + seen[True])
    rates = [np.mean(np.array(seen[True]) >= cut) - np.mean(np.array(seen[False]) >= cut) for cut in cuts]
    return float(max(rates))


def sent(data: PersonData | TensorData) -> list[float]:
    """What is seen of a step from weights of zero, with other noise each time."""
    model, most = nn.Linear(4, 2), data.most if isinstance(data, PersonData) else 0
    objective = Objective(
        lambda model, batch: F.cross_entropy(model(batch[0]), batch[1], reduction="none"), data.form, most
    )
    trainer, seen = trainer_for(model, objective, plan_of(max_grad_norm=BOUND)), []
    for key in range(TRIALS):
        nn.init.zeros_(model.weight)
        nn.init.zeros_(model.bias)
        trainer.draw_from(Randomness(bytes([key, len(data) % 256]) * 16))
        trainer.step(data, 1.0, 64)
        seen.append(float(model.weight.detach()[1].sum() - model.weight.detach()[0].sum()))
    return seen


def test_two_hundred_records_show_by_the_record_and_not_by_the_person() -> None:
    """At noise multiplier 1 a person's advantage is at most 2 Phi(1/2) - 1 = 0.383 (Gaussian mechanism)."""
    assert advantage(by_person=False) == 1.0
    assert advantage(by_person=True) < 0.383 + 3 * (0.25 * 2 / TRIALS) ** 0.5
