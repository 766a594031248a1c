"""The model's file: tensors with the right digest, and nothing else."""

import pickle
import zipfile
from pathlib import Path

import torch
from verify.made_run import MadeRun


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.path,)


def test_nothing_in_a_model_is_executed(made_run: MadeRun, tmp_path: Path) -> None:
    path, mark = made_run.files.model(private=True), tmp_path / "executed"
    torch.save(Evil(mark), path)
    assert "cannot be read as weights" in made_run.words("files")
    path.write_bytes(pickle.dumps(Evil(mark)))
    assert "is not a model as fl_dp writes them" in made_run.words("files")
    assert not mark.exists()


def test_a_packed_model_is_not_unfolded(made_run: MadeRun) -> None:
    path = made_run.files.model(private=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model/data.pkl", b"0" * 10_000)
    assert "is compressed" in made_run.words("files")


def test_one_changed_weight_is_another_model(made_run: MadeRun) -> None:
    path = made_run.files.model(private=True)
    weights = torch.load(path, weights_only=True)
    weights["bias"][0] += 1e-6
    torch.save(weights, path)
    assert "model.pt has other weights" in made_run.words("files")


def test_a_tie_that_the_digest_leaves_open_is_noted(made_run: MadeRun) -> None:
    path = made_run.files.model(private=True)
    one, other = torch.ones(2, 2), torch.zeros(2, 2)
    torch.save({"one": one, "other": other, "head\x1b[2J": other}, path)
    made_run.digests_anew()
    assert made_run.notes("files")[1:] == [r"head\u001b[2J is tied with other"]
