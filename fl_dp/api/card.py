"""The model card: what someone who was not there at the training needs to know."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from fl_dp.api.result import Result
from fl_dp.config.data import PERSON
from fl_dp.config.run import PATHS
from fl_dp.data.fixed_features import features_of
from fl_dp.data.tables.parse import parse_schema
from fl_dp.reporting.promise import NO_PROMISE, PROMISE, PROMISE_OF_PERSONS, WHERE
from fl_dp.weights_digest import weights_digest

_PLACES = ("out", "data-root")  # of the machine, not of the model
_ALONE = "epsilon_alone"  # of a run with secure sums
_PIXELS = "numbers as they are; images with pixels from 0 to 255 as x / 127.5 - 1"
_TOKENS = "int64 tokens"
_COLUMNS = "float32, as the schema encodes a record (fl_dp.encode), in this order"
_FEATURES = "float32 features {name} of a record (fl_dp's docs/models.md), not the record itself"


def card_of(result: Result, weights: Mapping[str, Tensor]) -> dict[str, Any]:
    """The card of the run's model, as JSON: no path, no client's name, nothing from a record."""
    described = result.description.to_dict()
    return {
        **described,
        "inputs": _inputs(result),
        "weights": weights_digest(weights),
        "parameters": sum(one.numel() for one in weights.values()),
        "status": result.status,
        "rounds": result.summary.get("rounds"),
        "metrics": dict(result.summary.get("metrics", {})),
        "loss-on-test-data": result.summary.get("loss"),
        "guarantee": _guarantee(result),
        "settings": _settings(result),
    }


def _inputs(result: Result) -> str | None:
    """What goes into the model, in words; None if not known."""
    form, features = result.description.form, features_of(result.settings.features)
    if schema := result.description.schema:
        return f"{_COLUMNS}: {'; '.join(parse_schema(tomllib.loads(schema)).inputs)}"
    if features is not None:
        return _FEATURES.format(name=features.name)
    return None if form is None else _TOKENS if form.vocabulary else _PIXELS


def _guarantee(result: Result) -> dict[str, Any]:
    if not result.private:
        return {"private": False, "promise": NO_PROMISE}
    federation = result.summary.get("federation") or {}
    alone = {"epsilon-if-the-assumption-of-secure-sums-fails": federation.get(_ALONE)}  # null: none holds
    return {
        "private": True,
        "epsilon": result.epsilon,
        "delta": result.delta,
        **(alone if _ALONE in federation else {}),
        "accountants": federation.get("accountants"),
        "arithmetic": federation.get("arithmetic"),
        "unit": federation.get("unit"),
        "promise": (PROMISE_OF_PERSONS if federation.get("unit") == PERSON else PROMISE) + WHERE,
    }


def _settings(result: Result) -> dict[str, Any]:
    own = {key for key in ("model", "loss", "data") if not getattr(result.description, key)}
    left_out = {*_PLACES, *own}
    flat = {key: value for key, value in result.settings.to_flat().items() if key not in left_out}
    return {key: _file_name(str(value)) if key in PATHS else value for key, value in flat.items()}


def _file_name(value: str) -> str:
    """'npz:/data/a.npz' as 'npz:a.npz'."""
    kind, colon, place = value.partition(":")
    if not colon:
        return Path(value).name
    return f"{Path(kind).name}:{Path(place).name}"
