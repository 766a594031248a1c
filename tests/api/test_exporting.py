"""A model as a file for other programs: the same answers, and a card that says what it is."""

import importlib.util
import json

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn

import fl_dp
from fl_dp.api.exporting import export
from fl_dp.errors import ConfigError, ModelError

HAS_ONNX = all(importlib.util.find_spec(name) for name in ("onnx", "onnxscript", "onnxruntime"))
needs_onnx = pytest.mark.skipif(not HAS_ONNX, reason="onnx, onnxscript and onnxruntime are optional")
INPUTS = torch.tensor([[0.5, -1.0, 2.0], [1.0, 0.0, 0.0], [0.0, 3.0, -2.0]])


class Branching(fl_dp.Task):
    """A model whose path depends on its inputs: ONNX cannot hold it."""

    classes = ("no", "yes")

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x) if x.sum().item() > 0 else self.layer(-x)

    def model(self) -> nn.Module:
        return self.Net()


def test_a_state_dict_and_safetensors_hold_the_weights_and_a_card_stands_beside_them(make_run, tmp_path):
    result = fl_dp.load_run(make_run())
    plain = torch.load(export(result, "state-dict", tmp_path / "a"), weights_only=True)
    file = export(result, "safetensors", tmp_path / "out")
    for name, value in result.model.state_dict().items():
        assert torch.equal(plain[name], value)
        assert torch.equal(load_file(file)[name], value)
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    with safe_open(file, "pt") as opened:
        assert json.loads(opened.metadata()["fl_dp"]) == card
    assert (card["classes"], card["form"]["input_shape"], card["parameters"]) == (["no", "yes"], [3], 8)
    guarantee = card["guarantee"]
    assert (guarantee["private"], guarantee["epsilon"], guarantee["delta"]) == (True, 1.5, 1e-5)
    assert (guarantee["accountants"], guarantee["arithmetic"]) == (["pld"], "steady-rows")
    assert "one record at one client" in guarantee["promise"]


def test_a_model_that_is_not_private_says_so_and_no_card_names_a_place_or_a_client(make_run, tmp_path):
    places = {"data": f"npz:{tmp_path}/hidden/a.npz", "data_root": str(tmp_path)}
    file = export(fl_dp.load_run(make_run(privacy="off", **places)), "state-dict", tmp_path / "out")
    assert file.name == "model-NOT-PRIVATE.pt"
    text = (tmp_path / "out" / "card.json").read_text()
    card = json.loads(text)
    assert card["guarantee"].keys() == {"private", "promise"}
    assert "NOT PRIVATE" in card["guarantee"]["promise"]
    assert card["settings"]["data"] == "npz:a.npz"
    assert not any(word in text for word in (str(tmp_path), "hidden", "secret-name"))


@needs_onnx
def test_onnx_gives_the_same_answers_for_any_number_of_inputs(make_run, tmp_path):
    import onnxruntime

    result = fl_dp.load_run(make_run())
    session = onnxruntime.InferenceSession(export(result, "onnx", tmp_path / "out"))
    for inputs in (INPUTS, INPUTS[:1]):
        (outputs,) = session.run(None, {"inputs": inputs.numpy()})
        np.testing.assert_allclose(outputs, result.model(inputs).detach(), rtol=1e-5, atol=1e-6)
    properties = session.get_modelmeta().custom_metadata_map
    assert json.loads(properties["fl_dp"]) == json.loads((tmp_path / "out" / "card.json").read_text())


@needs_onnx
def test_a_model_that_onnx_cannot_hold_is_refused_and_leaves_no_file(make_run, tmp_path):
    result = fl_dp.load_run(make_run(Branching), task=Branching)
    with pytest.raises(ModelError, match="cannot be exported to ONNX"):
        export(result, "onnx", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_package_that_is_missing_is_named_and_an_unknown_form_refused(make_run, tmp_path, monkeypatch):
    monkeypatch.setattr("fl_dp.optional.find_spec", lambda name: None)
    result = fl_dp.load_run(make_run())
    for kind, words in (
        ("onnx", r"--to onnx needs the package onnx, .*pip install onnx, or the extra"),
        ("pickle", "expected state-dict or safetensors or onnx"),
    ):
        with pytest.raises(ConfigError, match=words):
            export(result, kind, tmp_path / "out")


def test_a_folder_with_another_models_card_is_left_alone(make_run, tmp_path):
    result = fl_dp.load_run(make_run())
    export(result, "state-dict", tmp_path / "out")
    export(result, "safetensors", tmp_path / "out")  # the same model, in another form
    card = tmp_path / "out" / "card.json"
    card.write_text(card.read_text().replace(json.loads(card.read_text())["weights"], "other"))
    with pytest.raises(ConfigError, match="holds the card of another model"):
        export(result, "safetensors", tmp_path / "out")
