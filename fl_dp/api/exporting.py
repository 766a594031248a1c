"""Exports a run's model as a file for other programs, with its card."""

import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from fl_dp.api.card import card_of
from fl_dp.api.rebuild import read_weights
from fl_dp.api.result import Result
from fl_dp.config.files import read_json
from fl_dp.durable_files import write_whole
from fl_dp.errors import ConfigError, ModelError
from fl_dp.models.build import blank_inputs
from fl_dp.optional import require_package
from fl_dp.reporting.run_folder import RunFolder

CARD = "card.json"
Weights = Mapping[str, Tensor]


def export(result: Result, to: str, out: Path) -> Path:
    """Write the run's model to the folder `out`, in the form `to`, with card.json; returns the file's path.

    The file's name says so if the model is not private. ConfigError for an unknown form, a missing package,
    or a folder that holds another model; ModelError for a model that the form cannot hold.
    """
    if to not in FORMS:
        raise ConfigError(f"--to {to}: expected {' or '.join(FORMS)}.")
    ending, needed, write = FORMS[to]
    for package in needed:
        require_package(package, f"--to {to}")
    weights = read_weights(RunFolder(result.folder), private=result.private)
    card = card_of(result, weights)
    text = json.dumps(card, indent=2, allow_nan=False) + "\n"
    _check_folder(out, card["weights"])
    file = out / f"{'model' if result.private else 'model-NOT-PRIVATE'}.{ending}"
    out.mkdir(parents=True, exist_ok=True)
    write(result, weights, json.dumps(card, allow_nan=False), file)
    write_whole(out / CARD, lambda opened: opened.write(text.encode()))
    return file


def _check_folder(out: Path, weights: str) -> None:
    """Raise ConfigError if the folder holds the card of other weights: it would not belong to the model."""
    file = out / CARD
    if not file.exists():
        return
    found = read_json(file)
    if not isinstance(found, dict) or found.get("weights") != weights:
        raise ConfigError(f"--out {out}: holds the card of another model; name another folder.")


def _state_dict(result: Result, weights: Weights, card: str, file: Path) -> None:
    write_whole(file, lambda opened: torch.save(dict(weights), opened))


def _safetensors(result: Result, weights: Weights, card: str, file: Path) -> None:
    apart = {name: one.detach().clone().contiguous() for name, one in weights.items()}  # tied ones, too
    write_whole(file, lambda opened: opened.write(save(apart, {"format": "pt", "fl_dp": card})))


def _onnx(result: Result, weights: Weights, card: str, file: Path) -> None:
    import onnx  # late: it is optional

    _, model = result.trained
    form = result.description.form
    if form is None:
        raise ModelError(
            "The run's server has seen no data, so the model's input shape is not known; ONNX needs "
            "it. Export as safetensors or state-dict instead."
        )
    batch = torch.export.Dim("batch", min=1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch's exporter warns about itself
            program: Any = torch.onnx.export(
                model,
                (blank_inputs(form, 2),),
                dynamo=True,
                verbose=False,
                input_names=["inputs"],
                output_names=["outputs"],
                dynamic_shapes=({0: batch},),
            )
    except Exception as error:  # anything that the exporter or the model raises
        words = " ".join(str(error).split())[:300]
        raise ModelError(f"This model cannot be exported to ONNX: {type(error).__name__}: {words}") from error
    made = program.model_proto
    onnx.helper.set_model_props(made, {"fl_dp": card})
    write_whole(file, lambda opened: opened.write(made.SerializeToString()))


FORMS: dict[str, tuple[str, tuple[str, ...], Callable[[Result, Weights, str, Path], None]]] = {
    "state-dict": ("pt", (), _state_dict),
    "safetensors": ("safetensors", (), _safetensors),
    "onnx": ("onnx", ("onnx", "onnxscript"), _onnx),
}
