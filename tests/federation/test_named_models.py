"""The client as it is shipped trains each kind of model that settings can name, and sends what is trained."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fl_dp.config.client import ClientConfig
from fl_dp.federation.client.registration import task_identity
from fl_dp.models.names import common_name
from fl_dp.models.start import load_start
from fl_dp.records import RoundPlan
from fl_dp.tasks.load import new_model, task_of
from fl_dp.tasks.records import train_records
from fl_dp.training.trainer import as_arrays, trainable

CODE = """
from torch import nn

def make(form):
    return nn.Sequential(nn.Linear(form.input_shape[0], 4), nn.Tanh(), nn.Linear(4, form.outputs))
"""


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Files of data by their kind."""
    numbers = np.random.default_rng(0)
    tokens, labels = numbers.integers(1, 32, (100, 9)), numbers.integers(0, 2, 100)
    for name, arrays in {
        "numbers": {"x_train": numbers.normal(size=(100, 4)).astype(np.float32), "y_train": labels},
        "tokens": {"x_train": tokens, "y_train": labels, "vocabulary": 32},
        "next": {"x_train": tokens[:, :-1], "y_train": tokens[:, 1:], "vocabulary": 32},
        "images": {"x_train": numbers.integers(0, 256, (100, 32, 32, 3)).astype(np.uint8), "y_train": labels},
    }.items():
        classes = {} if name == "next" else {"classes": np.array(["a", "b"])}
        np.savez(tmp_path / f"{name}.npz", **arrays, **classes)
    return tmp_path


def check(
    real_client: Any, settings: dict[str, Any], server_model: str = "", names: set[str] | None = None
) -> None:
    """A client with these settings trains the model of a server that has the same, but for its path."""
    own = ClientConfig(
        client="server", ledger="l", **settings | ({"model": server_model} if server_model else {})
    )
    task = task_of(own)
    task.form = train_records(own).form
    model = new_model(task)
    load_start(model, own.start)
    plan = RoundPlan(
        "run",
        1,
        common_name(own.model),
        2,
        20,
        0.5,
        0.0,
        3.0,
        1.0,
        task=task_identity(own),
        trained=own.trained,
    )
    client = real_client("site", **{key.replace("_", "-"): value for key, value in settings.items()})
    answer, sent = client.train(plan, model=model), as_arrays(trainable(model))
    assert answer.arrays.keys() == sent.keys() == (names or sent.keys())
    assert any(not np.array_equal(array, sent[name]) for name, array in answer.arrays.items())


def test_code_of_ones_own(real_client: Any, records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a file that lies elsewhere at the server, or a module that can be imported."""
    for name in ("here/ours.py", "there/ours.py", "ours_to_import.py"):
        (records / name).parent.mkdir(exist_ok=True)
        (records / name).write_text(CODE)
    settings = {"data": f"npz:{records}/numbers.npz"}
    there = f"{records}/there/ours.py:make"
    check(real_client, {**settings, "model": f"{records}/here/ours.py:make"}, there)
    monkeypatch.syspath_prepend(records)
    shutil.rmtree(records / "site")
    check(real_client, {**settings, "model": "ours_to_import:make"})


def test_adapters_and_a_head(real_client: Any, records: Path) -> None:
    pytest.importorskip("peft")
    settings = {
        "data": f"npz:{records}/numbers.npz",
        "model": "mlp:8",
        "lora": "2:1",
        "trainable": "3.*",
    }
    names = {"1.lora_A.default.weight", "1.lora_B.default.weight", "3.weight", "3.bias"}
    check(real_client, settings, names=names)


@pytest.mark.parametrize("kind", ["tokens", "next"])
def test_a_folder_of_transformers(real_client: Any, records: Path, kind: str) -> None:
    """A classifier, and a language model; the server's folder may lie elsewhere."""
    transformers = pytest.importorskip("transformers")
    tokens = {"vocab_size": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config = transformers.GPT2Config(n_embd=8, n_layer=1, n_head=2, n_positions=16, **tokens)
    config.save_pretrained(records / "here")
    shutil.copytree(records / "here", records / "there")
    settings = {"data": f"npz:{records}/{kind}.npz", "model": f"hf:{records}/here"}
    check(real_client, settings, f"hf:{records}/there")


@pytest.mark.parametrize(
    ("model", "head"), [("torchvision:squeezenet1_1", "classifier.*"), ("timm:resnet10t", "fc.*")]
)
def test_image_models_of_libraries(real_client: Any, records: Path, model: str, head: str) -> None:
    pytest.importorskip(model.partition(":")[0])
    settings = {"data": f"npz:{records}/images.npz", "model": model, "trainable": head}
    check(real_client, settings)
