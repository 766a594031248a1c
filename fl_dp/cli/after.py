"""`fl-dp predict` and `fl-dp export`: what a model is used for after the run.

Reading a run's model imports PyTorch, which takes a second: late, so that --help is quick.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from fl_dp.cli.arguments import read_settings, task_from_here
from fl_dp.cli.common import command, say
from fl_dp.config.data import DataSettings
from fl_dp.reporting.wording import counted

RunArgument = Annotated[Path, typer.Argument(metavar="RUN_DIR", help="The run's folder.")]
TaskOption = Annotated[
    str | None,
    typer.Option(help="The run's task, FILE.py or package.module:NAME, if it had one; its code is run."),
]
ModelOption = Annotated[
    str | None, typer.Option(help="The run's model, if it is not built in; its code is run.")
]


@command()
def predict(
    run: RunArgument,
    data: Annotated[str, typer.Option(help="New data, such as npz:PATH.")],
    out: Annotated[Path, typer.Option(help="CSV file for the predictions.")] = Path("predictions.csv"),
    task: TaskOption = None,
    model: ModelOption = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Any key of the data, such as data-root; repeatable."
        ),
    ] = None,
) -> None:
    """Predict new data with the model of a run.

    The CSV file has a line for each record, in order. Code in the run's folder, or named by it, is not run.
    """
    from fl_dp.api import predicting, result

    given = read_settings(settings or (), DataSettings)
    own = DataSettings.from_flat(given)  # rejects unknown settings and wrong types
    changed = {name: getattr(own, name) for name in (key.replace("-", "_") for key in given)}
    wanted: dict[str, Any] = {**changed, "data": data}
    found = predicting.predict(result.load_run(run, task=task_from_here(task), model=model), wanted)
    predicting.write_predictions(found, out)
    say(f"{counted(len(found), 'prediction')} in {out}")


@command()
def export(
    run: RunArgument,
    to: Annotated[str, typer.Option(help="Format: state-dict, safetensors or onnx.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the model and its card [default: RUN_DIR/export].")
    ] = None,
    task: TaskOption = None,
    model: ModelOption = None,
) -> None:
    """Export the model of a run, with its model card.

    The card says what the model is and how it was protected. Code in the run's folder, or named by it, is not
    run; only onnx needs the model's own code.
    """
    from fl_dp.api import exporting, result
    from fl_dp.data.fixed_features import features_of

    found = result.load_run(run, task=task_from_here(task), model=model)
    file = exporting.export(found, to, run / "export" if out is None else out)
    say(f"{file}, with its card beside it")
    if features := features_of(found.settings.features):
        say(f"the model takes the features {features.name} of a record, not the record itself")
