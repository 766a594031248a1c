"""A site trains a model further, alone, with what is left of its budget: nothing leaves the site."""

import dataclasses
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.config.run_settings import ALLOCATION
from fl_dp.durable_files import write_whole
from fl_dp.errors import AccountingError, BudgetExhaustedError, ConfigError, DeclinedError, FederationError
from fl_dp.launch.site_models import Weights, has_test_rows, measured, model_with, read_weights, with_own

if TYPE_CHECKING:
    from torch import nn

    from fl_dp.records import ClientProfile, LocalUpdate


@dataclass(frozen=True)
class Recipe:
    """How a site fine-tunes. expected_batch_size: 0 for that of the data's earlier rounds, or 64.

    noise_multiplier: 0 for that of the data's earlier rounds. If it may vary, or there were none, 0 means the
    one at which the steps spend all that is left. trainable: patterns of the parameters to train; empty:
    those of the site's settings. own: the run whose own parameters of this site are the start; empty: none.
    """

    local_epochs: float = 1.0
    learning_rate: float = 0.1
    max_grad_norm: float = 1.0
    expected_batch_size: int = 0
    noise_multiplier: float = 0.0
    trainable: str = ""
    own: str = ""


def fine_tune(settings: ClientConfig, path: Path, recipe: Recipe, out: Path) -> str:
    """Train the model of a run or of a weights file, write its state dict to `out`, and say what was done.

    Steps are paid for like those of a round; if the budget ends, fewer are taken. Raises BudgetExhaustedError
    if not one fits, ConfigError for a file or a setting that cannot be used, and whatever a round may raise.
    """
    import torch

    from fl_dp.reporting.console import rounded_up

    _check_writable(out)
    found = read_weights(path)
    weights, name = with_own(settings, found, recipe.own) if recipe.own else (found, str(path))
    own = dataclasses.replace(
        settings,
        personal="",
        approve=False,
        trainable=recipe.trainable or settings.trainable,
    )
    model, update, asked = _train(own, weights, name, recipe)
    write_whole(out, lambda file: torch.save(model.state_dict(), file))
    lines = [
        f"{name}: {update.steps} of {asked} steps taken, epsilon {rounded_up(update.epsilon)} of "
        f"{own.epsilon:g} spent at delta {update.delta:g}; weights in {out}"
    ]
    if has_test_rows(own):
        lines += [measured(own, weights, "before"), measured(own, model.state_dict(), "after")]
    return "\n".join(lines)


def _check_writable(out: Path) -> None:
    """Raise ConfigError if the weights could not be written, or would overwrite something else."""
    if out.exists():
        raise ConfigError(f"--out {out}: already exists; name a new file.")
    try:
        out.with_name(f".{out.name}.new").touch()
        out.with_name(f".{out.name}.new").unlink()
    except OSError as error:  # now, not once the budget is spent
        raise ConfigError(f"--out {out}: cannot be written: {error.strerror}.") from error


def _train(
    settings: ClientConfig, weights: Weights, name: str, recipe: Recipe
) -> tuple["nn.Module", "LocalUpdate", int]:
    """The model after a round that the site asks of itself, its update, and the number of steps requested."""
    from fl_dp.federation.client.own_training import OwnTraining
    from fl_dp.federation.client.registration import task_identity
    from fl_dp.federation.client.round import ClientRounds, play
    from fl_dp.federation.server.planning import round_mechanism, round_plan
    from fl_dp.federation.wire.arrays import encode, load_arrays, state_arrays
    from fl_dp.federation.wire.messages import plan_to_content
    from fl_dp.records import LocalUpdate
    from fl_dp.tasks.load import task_of
    from fl_dp.tasks.records import load_part

    data, task = load_part(settings), task_of(settings)
    task.form = data.form
    model = model_with(task, weights, name)
    with ClientRounds.open(settings) as rounds:
        (client,) = rounds.register([(settings, data)])
        (profile,) = rounds.profiles([client])
        config = _run_config(settings, recipe, profile)
        try:
            mechanism = round_mechanism(profile, config)
        except AccountingError as error:
            raise BudgetExhaustedError(str(error)) from error
        except FederationError as error:
            raise ConfigError(f"cannot fine-tune: {error}.") from error
        run = f"fine-tuning {secrets.token_hex(4)}"
        plan = round_plan(profile, mechanism, config, run, 1, task_identity(settings))
        content = plan_to_content(plan, encode(state_arrays(model)))
        answer = play(rounds, client, content, OwnTraining(settings, data))
    if isinstance(answer, LocalUpdate):
        load_arrays(model, answer.arrays)
        return model, answer, plan.steps
    raise (BudgetExhaustedError if answer.budget_exhausted else DeclinedError)(answer.reason)


def _run_config(settings: ClientConfig, recipe: Recipe, profile: "ClientProfile") -> RunConfig:
    """One round of one client, within its own limits; it uses the mechanism of the data's earlier rounds."""
    batch = recipe.expected_batch_size
    if not batch:
        spent = profile.spent
        batch = round(spent[0].sample_rate * profile.public_size) if spent else min(64, profile.public_size)
    return RunConfig(
        clients=1, min_clients=1, fit_clients=1, rounds=1, evaluate="off",
        local_epochs=recipe.local_epochs, learning_rate=recipe.learning_rate,
        max_grad_norm=recipe.max_grad_norm, expected_batch_size=batch, physical_batch_size="auto",
        sampling_scheme=ALLOCATION if any(one.pass_steps > 1 for one in profile.spent) else "poisson",
        noise_multiplier=recipe.noise_multiplier or "auto",
        epsilon=settings.epsilon, delta=settings.delta, accountant=settings.accountant,
        arithmetic=settings.arithmetic, **settings.of_task(),
    )  # fmt: skip
