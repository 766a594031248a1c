"""The rule: from public numbers to settings. docs/planning.md has its sources.

Two ideas carry it. A run adds a sum of noised steps to each weight. The noise in that sum has a known
standard deviation; the learning rate is chosen so that it equals `noise_in_a_weight`. And the clipping bound
is large enough that small gradients count as what they are, unless noise, which grows with it, forbids.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
MORE_NOISE = 1.1  # times the noise of a full batch: accepted in return for shorter steps
LEAST_STEPS, MOST_STEPS = 60, 600  # of a client in all rounds
LEAST_PARTICIPATIONS = 4  # expected rounds of a client
MOMENTUM = 0.9
_EXAMPLES = 64  # made-up examples whose gradients are measured
MOST_NOISE_OF_MEAN = 0.001  # in a weight, of all steps' mean gradient, in lengths of a typical gradient
MOST_MOVE = 16.0  # of the weights in a step, if all records agree
MOST_IN_A_WEIGHT, MOST_IN_ALL = 0.6, 28.0  # of `noise_in_a_weight`
OF_IMAGES = 0.1  # the clipping bound of images, in lengths of a typical gradient
_CONSTANT = 1.7  # of `noise_in_a_weight`, of images
_QUICK = "rdp"  # for comparing two noises: their ratio is within a few per cent of a tight accountant's


def noise_of_mean(size: int, batch: int, epochs: float, epsilon: float, delta: float) -> float:
    """Standard deviation of the mean of all a client's noised steps, divided by the clipping bound.

    sigma / (B sqrt(T)): T steps, each a sum of about B clipped gradients with noise sigma, divided by B.
    size: the client's records; batch: the expected batch, or all records if there are fewer.
    """
    drawn = min(batch, size)
    steps = steps_of_epochs(size, drawn, epochs)
    noise = calibrate_noise(drawn / size, steps, epsilon, delta, accountant=_QUICK)
    return noise / (drawn * math.sqrt(steps))


def batch_of(size: int, epochs: float, epsilon: float, delta: float, most_steps: float = MOST_STEPS) -> int:
    """The expected batch: the power of two beyond which a larger one hardly reduces the noise.

    The smallest with at most `most_steps` steps and at most MORE_NOISE times the full batch's noise for the
    same epochs; smaller where that leaves fewer than LEAST_STEPS steps.
    """

    def steps(batch: int) -> int:
        return steps_of_epochs(size, min(batch, size), epochs)

    enough = MORE_NOISE * noise_of_mean(size, size, epochs, epsilon, delta)
    batch = 1
    while steps(batch) > most_steps and batch < size:
        batch *= 2
    while batch < size and steps(2 * batch) >= LEAST_STEPS:
        if noise_of_mean(size, batch, epochs, epsilon, delta) <= enough:
            break
        batch *= 2
    return batch


def rounds_of(clients: int, in_a_round: int, epochs: float, steps: int, most: int | None = None) -> int:
    """Rounds: at least as many as a round has clients, and enough for LEAST_PARTICIPATIONS of each client.

    In a round of t steps a client's own model gathers noise of variance t v; the mean of m clients gathers R
    t v / m in R rounds. With R >= m, noise moves no client further in a round than it moves the global model
    in the run. Where all clients train in each, more rounds cost no budget: 4 m, though no more than passes.
    epochs, steps: of a client in all rounds, at least one step in each. most: the user's limit.
    """
    share = in_a_round / clients
    wanted = max(in_a_round, math.ceil(LEAST_PARTICIPATIONS / share))
    if in_a_round == clients:
        wanted = max(wanted, min(LEAST_PARTICIPATIONS * clients, int(epochs)))
    return max(1, min(wanted, math.ceil(steps / share), most or wanted))


def rounds_of_sums(clients: int, in_a_round: int, steps: int, most: int | None = None) -> int:
    """Rounds of secure sums, in which a client takes one step each. Arguments: as in `rounds_of`."""
    rounds = math.ceil(steps * clients / in_a_round)
    return min(rounds, most or rounds)


def local_epochs_of(epochs: float, clients: int, in_a_round: int, rounds: int) -> float:
    """Passes over its records in one round of a client, to 4 digits; `epochs`: its expected total."""
    return float(f"{epochs / (rounds * in_a_round / clients):.4g}")


@dataclass(frozen=True, slots=True)
class MadeUp:
    """Of random examples with the form and unit of the data: their median gradient norm at the first
    weights, and whether they are images, or features of images.
    """

    norm: float
    images: bool


def made_up(config: RunConfig) -> MadeUp:
    """As 64 examples have it.

    Their numbers lie between -1 and 1, as pixels and a schema's columns do. The same form, model and seed
    give the same examples. ConfigError if the median is zero, or a norm not finite.
    """
    task = task_of(config)
    model = new_model(task)
    load_start(model, config.start)
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    with torch.random.fork_rng(devices=[]), in_task_code(type(task), "a pass of random numbers"):
        torch.default_generator.manual_seed(config.seed)
        objective = task.objective
        axes = axes_of(model, objective, torch.device("cpu"))
        inputs, *others = objective.blank(_EXAMPLES)
        if inputs.is_floating_point():
            inputs.uniform_(-1, 1)
        losses = objective.losses(model, (inputs, *others))
        norms = clipped_grad_sum(losses, parameters, max_grad_norm=1.0, axes=axes).norms.double()
    typical = float(norms.median())
    if not bool(torch.isfinite(norms).all()) or typical == 0:
        raise ConfigError(
            "max-grad-norm: cannot be chosen from random records, as their gradients at the first weights "
            "are zero or not finite; check the first weights of the model, or set the bound by hand."
        )
    return MadeUp(typical, len(objective.form.input_shape) == 3)


def bound_of(made_up: MadeUp, entries: Sequence[Entry | None], sizes: Sequence[int]) -> float:
    """The clipping bound, to 2 digits: a typical gradient's length, or less where noise is large.

    Above it nearly no gradient is clipped, and noise only grows. Far below it all gradients have one length:
    those of records that the model has learnt pull as strongly as others, and its confidence drifts. Noise in
    a weight of all steps' mean gradient is bound * noise_share; it may be MOST_NOISE_OF_MEAN * norm. Images
    have a tenth: their classes hardly overlap, and a larger bound cost accuracy.

    entries, sizes: as in `move_of`.
    """
    noise = noise_share_of(entries, sizes, 1)
    most = OF_IMAGES if made_up.images else min(1.0, MOST_NOISE_OF_MEAN / noise if noise else 1.0)
    return float(f"{made_up.norm * most:.1e}")


def noise_in_a_weight(parameters: int, *, images: bool) -> float:
    """Standard deviation of all noise in one weight at a run's end, found by measurement.

    0.6, and where there are many weights less: all their noise together is then 28 long. Of images
    1.7 / P^(1/4).
    """
    if images:
        return _CONSTANT / math.sqrt(math.sqrt(parameters))
    return min(MOST_IN_A_WEIGHT, MOST_IN_ALL / math.sqrt(parameters))


def move_of(
    entries: Sequence[Entry | None], sizes: Sequence[int], parameters: int, steps: float, *, images: bool
) -> float:
    """How far a step of the global model moves the weights if all records agree: rate * C / (1 - momentum).

    Chosen so that the noise of all steps moves a weight by `noise_in_a_weight`; at most MOST_MOVE. entries:
    each client's expected part; steps: of the global model, rounds times steps of a round.
    """
    share = noise_share_of(entries, sizes, parameters)  # of all weights, relative to the clearest signal
    if not share:
        return MOST_MOVE
    return min(
        MOST_MOVE, noise_in_a_weight(parameters, images=images) * math.sqrt(parameters) / (steps * share)
    )


def rate_of(move: float, bound: float, momentum: float) -> float:
    """The learning rate, to 2 digits."""
    return float(f"{move * (1 - momentum) / bound:.1e}")
