"""Why the rule chose each setting, as `fl-dp plan` prints it and writes it into the file."""

from fl_dp.accounting.training_plan import steps_of_epochs
from fl_dp.config.run import RunConfig
from fl_dp.launch.defaults import rule
from fl_dp.launch.spending import takes_every_round
from fl_dp.reporting.wording import counted


def reasons_of(
    config: RunConfig,
    size: int,
    epochs: float,
    move: float,
    made_up: rule.MadeUp,
    parameters: int,
    most: int | None,
) -> dict[str, str]:
    """By fields of CHOSEN; `server_optimizer` only for secure sums, as the rule leaves it alone elsewhere.

    size: of the typical client; epochs, most: passes and most rounds, as in `ruled`.
    """
    steps = steps_of_epochs(size, min(config.expected_batch_size, size), epochs)
    few = ", as many as are allowed" if epochs < rule.MOST_EPOCHS else ""
    allowed = ", as many as are allowed" if most == config.rounds else ""
    in_a_weight = rule.noise_in_a_weight(parameters, images=made_up.images)
    why_move = (
        f"so that all noise together moves a weight by {in_a_weight:.2g}: rate * "
        "steps grows with epsilon, as in Panda et al. 2022 (arXiv 2212.04486)"
    )
    if move == rule.MOST_MOVE:
        why_move = "the largest value that was tried, as there is so little noise"
    why_bound = "a larger bound would add noise, and hardly any gradient is longer"
    if made_up.images:
        why_bound = "for images a tenth of that works best: only rate * bound matters then (arXiv 2206.07136)"
    elif config.max_grad_norm < 0.9 * made_up.norm:
        why_bound = "as large as noise allows: the larger it is, the better the probabilities"
    why_rounds = (
        f"as many as there are clients in a round, and at least {rule.LEAST_PARTICIPATIONS} for each client"
    )
    if config.fit_clients == config.clients:
        most_rounds = f"at most {rule.LEAST_PARTICIPATIONS} times as many as there are clients"
        why_rounds = f"one for each pass over the records, {most_rounds}"
    reasons = {
        "rounds": f"{why_rounds}{allowed}: then no single client's noise dominates the common model",
        "local_epochs": (
            f"{counted(round(epochs), 'pass', 'passes')} over a client's {size} {config.unit_name}s in all "
            f"rounds{few}: at a fixed epsilon, more passes help (De et al. 2022, arXiv 2204.13650)"
        ),
        "expected_batch_size": (
            f"{counted(steps, 'step')} for each client in total; larger batches hardly reduce the noise at "
            "this epsilon (the total noise of De et al. 2022)"
        ),
        "physical_batch_size": "by memory-mib, on each machine; it changes neither epsilon nor accuracy",
        "learning_rate": f"rate * bound / (1 - momentum) = {move:.2g}, {why_move}",
        "optimizer_settings": "none: a client that is chosen only now and then has no momentum to continue",
        "optimizer_state": "without momentum there is none",
        "max_grad_norm": f"gradients of made-up records have length {made_up.norm:.2g}; {why_bound}",
        "noise_multiplier": "calibrated for each client, so that the rounds spend its epsilon",
        "participations": "noise for the number of rounds that nine of ten clients do not exceed",
    }
    if takes_every_round(config):
        reasons |= {
            "optimizer_settings": "steps are smoothed; only rate / (1 - momentum) matters",
            "optimizer_state": "momentum continues from round to round",
            "participations": "every client takes part in every round",
        }
    if config.secure:
        reasons |= {
            "rounds": f"a round of a secure sum is one step of all its members{allowed}",
            "local_epochs": f"{reasons['local_epochs']}. A round is one step, whatever this says",
            "optimizer_settings": "none: the server takes the steps",
            "server_optimizer": "momentum 0.9 at the server: steps are smoothed",
            "optimizer_state": "without momentum at the clients there is none",
        }
    return reasons
