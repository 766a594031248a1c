"""The rule: from public numbers to settings. docs/defaults.md has its sources, and what was measured.

One idea carries it. What a run adds to each weight is a sum of noised steps. The noise in that sum has a
standard deviation that is known beforehand; the learning rate is the one at which it is `noise_in_a_weight`.
"""

import math
from collections.abc import Sequence

import torch

from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.accounting.training_plan import steps_of_epochs
from fl_dp.config.run import RunConfig
from fl_dp.engine.clipping import clipped_grad_sum
from fl_dp.errors import ConfigError
from fl_dp.launch.forecast import noise_share_of
from fl_dp.models.start import load_start
from fl_dp.records import Entry
from fl_dp.tasks.load import in_task_code, new_model, task_of
from fl_dp.training.examples import axes_of

MOST_EPOCHS = 40.0  # passes over a client's records in all rounds
MORE_NOISE = 1.1  # over the noise of a full batch: so much is given away for shorter steps
LEAST_STEPS, MOST_STEPS = 60, 600  # of a client in all rounds
LEAST_PARTICIPATIONS = 4  # rounds of a client, in the mean
MOMENTUM = 0.9
_NORMS = 64  # made-up examples whose gradients are measured
OF_THE_LEAST_NORM = 0.1  # the clipping bound
MOST_MOVE = 16.0  # of the weights in a step, if all records agree
_CONSTANT = 1.7  # of `noise_in_a_weight`
_QUICK = "rdp"  # where two noises are compared: their ratio is that of a tight accountant to a few per cent


def noise_of_mean(size: int, batch: int, epochs: float, epsilon: float, delta: float) -> float:
    """Standard deviation of the mean of all a client's noised steps, over the clipping bound.

    sigma / (B sqrt(T)): T steps, each a sum of about B clipped gradients with noise sigma, divided by B.
    size: its records; batch: expected, all records where it has fewer.
    """
    drawn = min(batch, size)
    steps = steps_of_epochs(size, drawn, epochs)
    noise = calibrate_noise(drawn / size, steps, epsilon, delta, accountant=_QUICK)
    return noise / (drawn * math.sqrt(steps))


def batch_of(size: int, epochs: float, epsilon: float, delta: float) -> int:
    """The expected batch: a power of two, from which on larger ones win next to no noise.

    The smallest with at most MOST_STEPS steps and at most MORE_NOISE times the full batch's noise for the
    same epochs; smaller where that leaves fewer than LEAST_STEPS steps.
    """

    def steps(batch: int) -> int:
        return steps_of_epochs(size, min(batch, size), epochs)

    enough = MORE_NOISE * noise_of_mean(size, size, epochs, epsilon, delta)
    batch = 1
    while steps(batch) > MOST_STEPS and batch < size:
        batch *= 2
    while batch < size and steps(2 * batch) >= LEAST_STEPS:
        if noise_of_mean(size, batch, epochs, epsilon, delta) <= enough:
            break
        batch *= 2
    return batch


def rounds_of(clients: int, in_a_round: int, steps: int, most: int | None = None) -> int:
    """Rounds: as many as clients are in one, and so many that each client has LEAST_PARTICIPATIONS.

    In a round of t steps a client's own model gathers noise of variance t v; the mean of m clients gathers
    R t v / m in R rounds. With R >= m no client strays further by noise in a round than the common model does
    in the run. steps: of a client in all rounds, each of which has one at least. most: what the user allows.
    """
    share = in_a_round / clients
    wanted = max(in_a_round, math.ceil(LEAST_PARTICIPATIONS / share))
    return max(1, min(wanted, math.ceil(steps / share), most or wanted))


def local_epochs_of(epochs: float, clients: int, in_a_round: int, rounds: int) -> float:
    """Passes over its records in a client's round, of 4 digits; `epochs` in all, in the mean."""
    return float(f"{epochs / (rounds * in_a_round / clients):.4g}")


def made_up_norms(config: RunConfig) -> list[float]:
    """Lengths of the gradients of 64 examples of random numbers, of the data's form and unit.

    They say how small a clipping bound has to be. Always the same ones for a form, a model and a seed.
    ConfigError where one is not finite, or zero.
    """
    task = task_of(config)
    model = new_model(task)
    load_start(model, config.start)
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    with torch.random.fork_rng(devices=[]), in_task_code(type(task), "a pass of random numbers"):
        torch.default_generator.manual_seed(config.seed)
        objective = task.objective
        axes = axes_of(model, objective, torch.device("cpu"))
        losses = objective.losses(model, objective.blank(_NORMS))
        norms = clipped_grad_sum(losses, parameters, max_grad_norm=1.0, axes=axes).norms.double()
    if not bool(torch.isfinite(norms).all()) or float(norms.median()) == 0:
        raise ConfigError(
            "max-grad-norm: no bound follows from random records: their gradients at the first weights are "
            "zero or not finite; look at the model's first weights, or set the bound by hand."
        )
    return [float(norm) for norm in norms]


def bound_of(norms: Sequence[float]) -> float:
    """The clipping bound, of one digit: so small that nearly every gradient is clipped.

    norms: of gradients of made-up records at the first weights. A step then is a mean of directions, and only
    the product of rate and bound counts.
    """
    ordered = sorted(norms)
    least = ordered[len(ordered) // 20]  # a few records may be less than typical
    return float(f"{OF_THE_LEAST_NORM * least:.0e}")


def noise_in_a_weight(parameters: int) -> float:
    """Standard deviation of all noise in one weight at a run's end: 1.7 / P^(1/4), found by measurement."""
    return _CONSTANT / math.sqrt(math.sqrt(parameters))


def move_of(entries: Sequence[Entry | None], sizes: Sequence[int], parameters: int, steps: float) -> float:
    """How far the weights go in a step of the common model if all records agree: rate * C / (1 - momentum).

    So that the noise of all steps moves a weight by `noise_in_a_weight`; at most MOST_MOVE. entries: what
    each client is to take part in, in the mean; steps: of the common model, rounds times steps of a round.
    """
    share = noise_share_of(entries, sizes, parameters)  # of all weights together, beside the clearest signal
    if not share:
        return MOST_MOVE
    return min(MOST_MOVE, noise_in_a_weight(parameters) * math.sqrt(parameters) / (steps * share))


def rate_of(move: float, bound: float, momentum: float) -> float:
    """The learning rate, of 2 digits."""
    return float(f"{move * (1 - momentum) / bound:.1e}")
