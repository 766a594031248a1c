"""The model: its weights have the digest in the summary, and its description belongs to this run."""

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from fl_dp.clean_text import clean
from fl_dp.errors import ConfigError
from fl_dp.verify.check import Check, Evidence, Found
from fl_dp.verify.claims import Claim
from fl_dp.verify.reading import is_there, opened, read_json, read_toml, table

if TYPE_CHECKING:
    from torch import Tensor


def _run(evidence: Evidence, found: Found) -> None:
    summary = evidence.summary
    if summary is None:
        found.not_given("a digest of the model", "there is no summary.json")
        return
    _check_weights(evidence.folder.model(private=summary.private), summary, found)
    _check_description(evidence, summary, found)
    if not found.any_differ and not any(one.outcome == "not given" for one in found.kept):
        found.agrees("the model has the digest that summary.json names, and model.json belongs to this run")


def _check_weights(path: Path, summary: Claim, found: Found) -> None:
    digests = summary.raw.get("digests")
    claimed = digests.get("model") if isinstance(digests, dict) else None
    if not is_there(path):
        found.not_given(path.name)
    elif not claimed:
        found.not_given("a digest of the model", "the summary has none")
    else:
        _compare_weights(path, str(claimed), found)


def _compare_weights(path: Path, claimed: str, found: Found) -> None:
    from fl_dp.weights_digest import ties_left_open, weights_digest

    weights = _weights_of_file(path)
    if weights_digest(weights) != claimed:
        found.differs(
            f"{path.name} has other weights than summary.json says", path.name,
            "the model was changed or swapped: this guarantee is not of this model",
        )  # fmt: skip
    for name, first in sorted(ties_left_open(weights).items()):
        found.note(
            f"{clean(name)} is tied with {clean(first)}", path.name,
            "the digest says what the tensors are, and not which of two alike a second name is tied with; "
            "fl_dp refuses to load one that the model does not tie",
        )  # fmt: skip


def _weights_of_file(path: Path) -> "dict[str, Tensor]":
    """Read as tensors, never as code. ConfigError if there are none."""
    with opened(path) as file:  # a plain file
        try:
            with zipfile.ZipFile(file) as archive:
                packed = any(one.compress_type != zipfile.ZIP_STORED for one in archive.infolist())
        except (zipfile.BadZipFile, ValueError, NotImplementedError):
            raise ConfigError(f"{path.name} is no model as fl_dp writes it.") from None
    if packed:  # it could expand beyond all memory
        raise ConfigError(f"{path.name} is packed, which no model of fl_dp's is; it was not read.")
    from fl_dp.models.weights_file import load_weights

    return load_weights(path, path.name)


def _check_description(evidence: Evidence, summary: Claim, found: Found) -> None:
    folder = evidence.folder
    if not is_there(folder.description):
        found.not_given("model.json")
        return
    found_there = read_json(folder.description)
    try:
        description = table(found_there)
    except ValueError:
        raise ConfigError("model.json is damaged: it is no table.") from None
    pairs = {"identity": summary.raw.get("task")}
    if is_there(folder.config):
        asked = read_toml(folder.config)
        pairs |= {key: asked.get(key) for key in ("model", "loss")}
    for key, value in pairs.items():
        said = description.get(key)
        if value is not None and said is not None and said != value and (said or key == "identity"):
            found.differs(
                f"{key} is another one than the run's", "model.json", "the description is of another model"
            )


CHECK = Check(place=6, run=_run)
