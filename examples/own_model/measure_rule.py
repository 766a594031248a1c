"""A gradient rule for nn.PReLU: held against one backward pass for each example, and timed.

A rule of your own is right when the first number printed is 1e-9 or less; the second says what it is worth.
"""

import statistics
import time

import torch
from torch import Tensor, nn

from fl_dp import clipped_grad_sum
from fl_dp.engine.gradients.layouts import GradientLayout
from fl_dp.engine.probe import probe
from fl_dp.engine.rule import Rule, Site, broadcast_sum, refuse
from fl_dp.engine.rule_table import RULES

EXAMPLES, BOUND = 64, 0.3


def prelu(site: Site) -> GradientLayout:
    """PreluKernelBackward0(input, weight): the weight, broadcast, scales what is negative."""
    if site.key.argument != 1:
        refuse(site.key, "a parameter as the input of PReLU has no rule")
    return broadcast_sum(site, site.grad * site.node._saved_self.clamp_max(0))


def one_by_one(model: nn.Module, inputs: Tensor) -> dict[str, Tensor]:
    """The definition: each example's gradient, clipped to BOUND over all parameters, added up."""
    parameters = dict(model.named_parameters())
    total = {name: torch.zeros_like(one) for name, one in parameters.items()}
    for example in inputs.split(1):
        grads = torch.autograd.grad(losses(model, example).sum(), list(parameters.values()))
        length = torch.stack([grad.norm() for grad in grads]).norm()
        for name, grad in zip(parameters, grads, strict=True):
            total[name] += grad * min(1.0, BOUND / float(length))
    return total


def losses(model: nn.Module, inputs: Tensor) -> Tensor:
    return model(inputs).flatten(1).sin().sum(1)


def seconds(model: nn.Module, inputs: Tensor) -> float:
    """The median of 20 sums of clipped gradients."""
    axes, parameters = probe(model, inputs), dict(model.named_parameters())
    times = []
    for _ in range(20):
        start = time.perf_counter()
        clipped_grad_sum(losses(model, inputs), parameters, max_grad_norm=BOUND, axes=axes)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Conv2d(2, 8, 3), nn.PReLU(8), nn.Conv2d(8, 8, 3), nn.PReLU(8))
    inputs = torch.randn(EXAMPLES, 2, 12, 12)
    without = seconds(model, inputs)
    RULES["PreluKernelBackward0"] = Rule(prelu)  # type: ignore[index]  # for this process; else it is a file
    found = clipped_grad_sum(
        losses(model, inputs), dict(model.named_parameters()), max_grad_norm=BOUND, axes=probe(model, inputs)
    )
    expected = one_by_one(model, inputs)
    worst = max(float((found.grads[name] - one).abs().max()) for name, one in expected.items())
    print(f"largest difference from one pass an example: {worst:.1e}")
    print(f"times as fast as without the rule: {without / seconds(model, inputs):.1f}")
    if worst > 1e-9:
        raise SystemExit("the rule is wrong")


if __name__ == "__main__":
    main()
