"""`fl-dp fine-tune`: a site trains a model further, alone, with what is left of its budget."""

from pathlib import Path
from typing import Annotated

import typer

from fl_dp.cli.client_settings import own_settings
from fl_dp.cli.common import say
from fl_dp.launch.exit_codes import ExitCode

HELP = """Train a model further on this site's own records, from what is left of its budget. Nothing leaves.

\b
The model of a run that is over, for one more pass over the records:
  fl-dp fine-tune RUN --config client.toml --out ours.pt
Its last layer alone, for five:
  fl-dp fine-tune model.pt --config client.toml --out ours.pt --local-epochs 5 --trainable 'head.*'

With the parameters of this site's own, from a run with mr-mtl or personal:
  fl-dp fine-tune RUN --config client.toml --out ours.pt --own NAME-OF-RUN

Every step is paid for in the ledger before it is taken, at the batch size and noise of the data's earlier
rounds; where the budget ends, fewer steps are taken. Where there were no such rounds, or the settings say
vary-mechanism, --noise-multiplier names the noise; else it is the one at which these steps spend ALL that is
left. Where the site has test rows, both models are measured on them.

Exit code: 0 trained; 3 not one step fits the budget.
"""


def fine_tune(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="A run's folder, or a file of weights.", show_default=False),
    ],
    out: Annotated[Path, typer.Option(help="File for the new weights.", show_default=False)],
    config: Annotated[
        Path | None, typer.Option(help="This client's settings, as of fl-dp client.", show_default=False)
    ] = None,
    local_epochs: Annotated[float, typer.Option(help="Expected passes over the records.")] = 1.0,
    learning_rate: Annotated[float, typer.Option(help="Of SGD.")] = 0.1,
    max_grad_norm: Annotated[float, typer.Option(help="Clipping bound.")] = 1.0,
    expected_batch_size: Annotated[
        int,
        typer.Option(
            help="Of a Poisson draw [default: of the data's earlier rounds, or 64].", show_default=False
        ),
    ] = 0,
    noise_multiplier: Annotated[
        float, typer.Option(help="[default: of the data's earlier rounds; see above].", show_default=False)
    ] = 0.0,
    own: Annotated[
        str,
        typer.Option(help="Run whose parameters of this site's own are started from.", show_default=False),
    ] = "",
    trainable: Annotated[
        str,
        typer.Option(
            help="Patterns of the parameters that are trained [default: as the settings say].",
            show_default=False,
        ),
    ] = "",
    ledger: Annotated[Path | None, typer.Option(help="Folder of the ledger, as of fl-dp client.")] = None,
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
