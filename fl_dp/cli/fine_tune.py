"""`fl-dp fine-tune`: a site trains a model further, alone, with what is left of its budget."""

from pathlib import Path
from typing import Annotated

import typer

from fl_dp.cli.client_settings import own_settings
from fl_dp.cli.common import say
from fl_dp.launch.exit_codes import ExitCode

HELP = """Train a model further on this site's own records.

It is paid from what is left of this site's budget. Nothing leaves the site.

\b
Train the model of a finished run for one more pass over the records:
  fl-dp fine-tune RUN --config client.toml --out ours.pt
Train only its last layer, for five passes:
  fl-dp fine-tune model.pt --config client.toml --out ours.pt --local-epochs 5 --trainable 'head.*'

Start from this site's own parameters, after a run with mr-mtl or personal:
  fl-dp fine-tune RUN --config client.toml --out ours.pt --own NAME-OF-RUN

Every step is paid for in the ledger before it is taken. If the budget ends, fewer steps are taken. Batch size
and noise are those of earlier rounds on the same data. If there were none, or the settings have
vary-mechanism, --noise-multiplier sets the noise; without it the noise is chosen so that these steps
spend ALL that is left. If the site has test rows, both models are evaluated on them.

Exit code: 0 trained; 3 the budget has no room for a step.
"""


def fine_tune(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="A run's folder, or a file of weights.", show_default=False),
    ],
    out: Annotated[Path, typer.Option(help="File for the new weights.", show_default=False)],
    config: Annotated[
        Path | None, typer.Option(help="This client's settings, as for fl-dp client.", show_default=False)
    ] = None,
    local_epochs: Annotated[float, typer.Option(help="Expected passes over the records.")] = 1.0,
    learning_rate: Annotated[float, typer.Option(help="Learning rate of SGD.")] = 0.1,
    max_grad_norm: Annotated[float, typer.Option(help="Clipping bound.")] = 1.0,
    expected_batch_size: Annotated[
        int,
        typer.Option(
            help="Expected size of a Poisson draw [default: that of earlier rounds, or 64].",
            show_default=False,
        ),
    ] = 0,
    noise_multiplier: Annotated[
        float,
        typer.Option(
            help="Noise multiplier [default: that of earlier rounds; see above].", show_default=False
        ),
    ] = 0.0,
    own: Annotated[
        str,
        typer.Option(help="Run to take this site's own parameters from.", show_default=False),
    ] = "",
    trainable: Annotated[
        str,
        typer.Option(
            help="Patterns of the parameters to train [default: those of the settings].",
            show_default=False,
        ),
    ] = "",
    ledger: Annotated[
        Path | None, typer.Option(help="Folder of the ledger [default: ~/.local/state/fl-dp/ledger].")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any key of a client's settings; repeatable."),
    ] = None,
) -> ExitCode:
    from fl_dp.errors import BudgetExhaustedError
    from fl_dp.launch.fine_tuning import Recipe
    from fl_dp.launch.fine_tuning import fine_tune as train

    recipe = Recipe(
        local_epochs, learning_rate, max_grad_norm, expected_batch_size, noise_multiplier, trainable, own
    )
    try:
        say(train(own_settings(config, {}, settings or (), ledger), model, recipe, out))
    except BudgetExhaustedError as error:
        say(f"nothing was trained: {error}")
        return ExitCode.BUDGET_EXHAUSTED
    return ExitCode.TRAINED
