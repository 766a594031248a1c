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


def test_a_state_dict_and_safetensors_hold_the_weights(make_run, tmp_path):
    result = fl_dp.load_run(make_run())
    plain = torch.load(export(result, "state-dict", tmp_path / "a"), weights_only=True)
    safe = load_file(export(result, "safetensors", tmp_path / "b"))
    for name, value in result.model.state_dict().items():
        assert torch.equal(plain[name], value)
        assert torch.equal(safe[name], value)


def test_the_card_stands_beside_the_model_and_inside_safetensors(make_run, tmp_path):
    file = export(fl_dp.load_run(make_run()), "safetensors", tmp_path / "out")
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    with safe_open(file, "pt") as opened:
        assert json.loads(opened.metadata()["fl_dp"]) == card
    assert card["classes"] == ["no", "yes"]
    assert card["form"]["input_shape"] == [3]
    assert card["parameters"] == 8
    guarantee = card["guarantee"]
    assert (guarantee["private"], guarantee["epsilon"], guarantee["delta"]) == (True, 1.5, 1e-5)
    assert (guarantee["accountants"], guarantee["arithmetic"]) == (["pld"], "assumed")
    assert "one record at one client" in guarantee["promise"]


def test_the_card_names_no_place_and_no_client(make_run, tmp_path):
    result = fl_dp.load_run(make_run(data=f"npz:{tmp_path}/hidden/a.npz", data_root=str(tmp_path)))
    export(result, "state-dict", tmp_path / "out")
    text = (tmp_path / "out" / "card.json").read_text()
    assert json.loads(text)["settings"]["data"] == "npz:a.npz"
    assert str(tmp_path) not in text
    assert "hidden" not in text
    assert "secret-name" not in text


def test_a_model_that_is_not_private_says_so_in_its_name_and_card(make_run, tmp_path):
    file = export(fl_dp.load_run(make_run(privacy="off")), "state-dict", tmp_path / "out")
    assert file.name == "model-NOT-PRIVATE.pt"
    guarantee = json.loads((tmp_path / "out" / "card.json").read_text())["guarantee"]
    assert guarantee.keys() == {"private", "promise"}
    assert "NOT PRIVATE" in guarantee["promise"]


@pytest.mark.skipif(not HAS_ONNX, reason="onnx, onnxscript and onnxruntime are optional")
def test_onnx_gives_the_same_answers_for_any_number_of_inputs(make_run, tmp_path):
    import onnxruntime

    result = fl_dp.load_run(make_run())
    session = onnxruntime.InferenceSession(export(result, "onnx", tmp_path / "out"))
    for inputs in (INPUTS, INPUTS[:1]):
        (outputs,) = session.run(None, {"inputs": inputs.numpy()})
        np.testing.assert_allclose(outputs, result.model(inputs).detach(), rtol=1e-5, atol=1e-6)
    properties = session.get_modelmeta().custom_metadata_map
    assert json.loads(properties["fl_dp"]) == json.loads((tmp_path / "out" / "card.json").read_text())


@pytest.mark.skipif(not HAS_ONNX, reason="onnx, onnxscript and onnxruntime are optional")
def test_a_model_that_onnx_cannot_hold_is_refused_and_leaves_no_file(make_run, tmp_path):
    result = fl_dp.load_run(make_run(Branching), task=Branching)
    with pytest.raises(ModelError, match="cannot be exported to ONNX"):
        export(result, "onnx", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_package_that_is_missing_is_named(make_run, tmp_path, monkeypatch):
    monkeypatch.setattr("fl_dp.optional.find_spec", lambda name: None)
    with pytest.raises(
        ConfigError, match=r"--to onnx needs the package onnx, .*pip install onnx, or the extra"
    ):
        export(fl_dp.load_run(make_run()), "onnx", tmp_path / "out")


def test_an_unknown_form_is_refused(make_run, tmp_path):
    with pytest.raises(ConfigError, match="expected state-dict or safetensors or onnx"):
        export(fl_dp.load_run(make_run()), "pickle", tmp_path / "out")


def test_a_folder_with_another_models_card_is_left_alone(make_run, tmp_path):
    result = fl_dp.load_run(make_run())
    export(result, "state-dict", tmp_path / "out")
    export(result, "safetensors", tmp_path / "out")  # the same model, in another form
    card = tmp_path / "out" / "card.json"
    card.write_text(card.read_text().replace(json.loads(card.read_text())["weights"], "other"))
    with pytest.raises(ConfigError, match="holds the card of another model"):
        export(result, "safetensors", tmp_path / "out")
