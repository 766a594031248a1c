"""Predictions of a run's model for new data, one row for each record."""

import dataclasses
import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from fl_dp.api.result import Result, load_run
from fl_dp.config.task import TaskSettings
from fl_dp.data.fixed_features import features_of
from fl_dp.data.source import data_of, load_inputs
from fl_dp.data.tables.files import write_frame
from fl_dp.data.tensor_data import batch_inputs
from fl_dp.durable_files import write_whole
from fl_dp.errors import ConfigError, DataError, ModelError
from fl_dp.tasks.load import in_task_code
from fl_dp.tasks.task import Task

_BATCH = 512
_OF_ENCODING = ("columns", "image-size", "image-mode", "features", "tokens", "tokenizer", "encoding")
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # how a cell begins that a spreadsheet takes for a formula
_NUMBER = re.compile(r"-(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|-inf")


def predict(run: Result | str | Path, data: Any) -> pd.DataFrame:
    """A run's predictions for new data: one row per record, in order.

    Args:
        run: A result, or a run's folder.
        data: A data frame with the columns of the training table; inputs (n, ...) as a tensor or array; a
            name such as "csv:new.csv"; or settings, {"data": ..., "data_root": ...}.

    Returns:
        For classes, the answer and the probability of each class; if the task has its own losses, the
        model's outputs, which may be anything. For numbers, the numbers; with the loss "bce", probabilities.

    Raises:
        DataError: The data have another form than the training data.
        ConfigError: Other features, or as `Result.model`.
        ModelError: A model with one output per token.

    Example:
        >>> import fl_dp, torch
        >>> found = fl_dp.predict("runs/first", torch.zeros(3, 1, 8, 8))
        >>> len(found), list(found.columns[:2])
        (3, ['answer', 'probability 0'])
    """
    result = run if isinstance(run, Result) else load_run(run)
    task, model = result.trained
    form = result.description.form
    inputs = _inputs_of(task.settings, data, result.description.schema)
    if form is not None and tuple(inputs.shape[1:]) != form.input_shape:
        raise DataError(
            f"The data have inputs of shape {tuple(inputs.shape[1:])}; the model was trained on "
            f"{form.input_shape}."
        )
    if form is not None and form.targets == "tokens":
        raise ModelError(
            "predict does not support models with one output per token; use load_run(...).model."
        )
    parts = [pd.DataFrame(_table(task, outputs)) for outputs in _answers(task, model, inputs)]
    return pd.concat(parts, ignore_index=True).rename_axis("row")


def encode(card: str | Path, data: Any) -> Tensor:
    """The inputs (n, ...) that an exported model takes for new data, encoded as in training.

    Args:
        card: The card.json beside the model.
        data: As in `predict`.

    Returns:
        Inputs for the model.

    Raises:
        ConfigError: A file that is no card, or other features.
        DataError: Data that cannot be read.

    Example:
        >>> import fl_dp, torch
        >>> from pathlib import Path
        >>> from fl_dp.api.exporting import export
        >>> weights = export(fl_dp.load_run("runs/first"), "state-dict", Path("exported"))
        >>> fl_dp.encode("exported/card.json", torch.zeros(3, 1, 8, 8)).shape
        torch.Size([3, 1, 8, 8])
    """
    try:
        found = json.loads(Path(card).expanduser().read_text(encoding="utf-8"))
        read = {key: found["settings"][key] for key in _OF_ENCODING}
        schema = str(found["schema"])
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(f"{card}: expected the card.json of fl-dp export.") from None
    return _inputs_of(TaskSettings.from_flat(read), data, schema)


def write_predictions(found: pd.DataFrame, out: Path) -> None:
    """Write them to a CSV file that is safe to open in a spreadsheet."""
    safe = found.assign(answer=found["answer"].map(disarmed)) if "answer" in found else found
    text = safe.to_csv(float_format="%.6g", lineterminator="\n")
    write_whole(out, lambda opened: opened.write(text.encode()))


def disarmed(value: object) -> str:
    """The cell, prefixed with an apostrophe if a spreadsheet might compute it; numbers stay numbers.

    Spaces before a formula do not hide it. None is an empty cell.
    """
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    if not text.startswith(_FORMULAS) and not text.lstrip().startswith(_FORMULAS):
        return text
    return text if _NUMBER.fullmatch(text) else f"'{text}"


def _inputs_of(run: TaskSettings, data: Any, schema: str) -> Tensor:
    if isinstance(data, str):
        return _inputs(run, {"data": data}, schema)
    if isinstance(data, Mapping):
        return _inputs(run, data, schema)
    if isinstance(data, pd.DataFrame) and schema:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "frame.parquet"
            write_frame(data, file)
            try:
                return _inputs(run, {"data": f"parquet:{file}"}, schema)
            except DataError as error:
                raise DataError(str(error).replace(str(file), "the data frame")) from None
    inputs = torch.as_tensor(data.to_numpy() if isinstance(data, pd.DataFrame) else data)
    inputs = inputs if inputs.dtype in (torch.uint8, torch.int64) else inputs.float()
    features = features_of(run.features)
    return batch_inputs(features.of(inputs) if features else inputs)


def _inputs(run: TaskSettings, data: Mapping[str, Any], schema: str) -> Tensor:
    """The inputs of new data, read by built-in code: not what a user's own task would read itself.

    schema: the text of the training schema, for a table without a named one.
    """
    if features_of(data.get("features", run.features)) != features_of(run.features):
        raise ConfigError(
            f"features = {data['features']!r}: the model was trained with features = {run.features!r}; leave "
            "the key out."
        )
    with tempfile.TemporaryDirectory() as folder:
        settings = dataclasses.replace(run, **{"schema": "", **data})
        if schema and not settings.schema:
            file = Path(folder) / "training.schema.toml"
            file.write_text(schema, encoding="utf-8")
            settings = dataclasses.replace(settings, schema=str(file))
        inputs = load_inputs(settings)
        inputs = data_of(settings, "test").x if inputs is None else inputs
        features = features_of(settings.features)
        return batch_inputs(features.of(inputs) if features else inputs)


@torch.no_grad()
def _answers(task: Task, model: nn.Module, inputs: Tensor) -> Iterator[Tensor]:
    for part in torch.split(inputs, _BATCH):
        with in_task_code(type(task), "outputs()"):
            answer = task.outputs(model, part)
            if len(answer) != len(part):
                raise ValueError(f"it returned {len(answer)} answers for {len(part)} inputs")
        yield answer.float()


def _table(task: Task, outputs: Tensor) -> dict[str, list[Any]]:
    """Columns by name. outputs: (n,) or (n, k)."""
    outputs = outputs.unsqueeze(1) if outputs.ndim == 1 else outputs.flatten(1)
    wide = outputs.shape[1]
    names = task.class_names if len(task.class_names) == wide else tuple(str(i) for i in range(wide))
    form, own = task.known_form, type(task).losses is not Task.losses
    of_classes = form.targets == "class" if form else bool(task.class_names)
    if of_classes:
        values = outputs if own else outputs.softmax(dim=1)
        answers = [names[i] for i in outputs.argmax(dim=1).tolist()]
        return {"answer": answers, **_columns("output" if own else "probability", names, values)}
    if not own and task.settings.loss == "bce":
        return _columns("probability", names, outputs.sigmoid())
    return _columns("output", names, outputs)


def _columns(what: str, names: tuple[str, ...], values: Tensor) -> dict[str, list[Any]]:
    return {
        f"{what} {name}": column.tolist() for name, column in zip(names, values.unbind(dim=1), strict=True)
    }
