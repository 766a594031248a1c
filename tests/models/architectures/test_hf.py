from pathlib import Path
from typing import Any

import pytest
import torch

from fl_dp.engine.probe import probe
from fl_dp.errors import ConfigError, ModelError
from fl_dp.form import Form
from fl_dp.models.build import build_model
from fl_dp.models.names import absolute_model, common_name

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
CLASSES, NEXT = Form((10,), 3, "class", 60), Form((10,), 60, "tokens", 60)


def _bert(folder: Path, **options: Any) -> Path:
    transformers.BertConfig(vocab_size=60, **SMALL, **options).save_pretrained(folder)
    return folder


def _gpt2(folder: Path) -> Path:
    ends = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1}
    transformers.GPT2Config(n_embd=16, n_layer=2, n_head=2, vocab_size=60, **ends).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("make", [_bert, _gpt2])
@pytest.mark.parametrize("form", [CLASSES, NEXT])
def test_a_folder_gives_a_model_that_can_be_protected(tmp_path: Path, make: Any, form: Form) -> None:
    model = build_model(f"hf:{make(tmp_path)}", form, seed=0).train()
    tokens = torch.randint(1, 60, (3, 10))
    assert model(tokens).shape == (3, *form.output_shape)
    assert not probe(model, tokens).fallback
    if form is NEXT:
        other = tokens.clone()
        other[:, -1] = other[:, -1] % 59 + 1
        assert torch.allclose(model(tokens)[:, :-1], model(other)[:, :-1], atol=1e-5)


def test_weights_of_a_folder_are_read_and_nothing_is_dropped_at_random(tmp_path: Path) -> None:
    config = transformers.BertConfig(vocab_size=60, num_labels=3, **SMALL)
    trained = transformers.BertForSequenceClassification(config)
    trained.save_pretrained(tmp_path, safe_serialization=True)
    model = build_model(f"hf:{tmp_path}", CLASSES, seed=5)
    state = model.state_dict()
    assert all(torch.equal(state[f"model.{name}"], value) for name, value in trained.state_dict().items())
    tokens = torch.randint(1, 60, (3, 10))
    assert torch.equal(model.train()(tokens), model(tokens))


def test_padding_is_not_looked_at(tmp_path: Path) -> None:
    model = build_model(f"hf:{_bert(tmp_path)}", CLASSES, seed=0)
    tokens = torch.randint(1, 60, (2, 10))
    tokens[:, 6:] = 0
    with torch.no_grad():
        before = model(tokens)
        model.model.bert.embeddings.word_embeddings.weight[0] += 1.0
        assert torch.allclose(model(tokens), before, atol=1e-6)


def test_sites_compare_what_is_in_the_folder_and_not_its_path(tmp_path: Path) -> None:
    one, same, other = (_bert(tmp_path / name) for name in ("one", "same", "other"))
    _gpt2(other)
    names = [common_name(f"hf:{folder}") for folder in (one, same, other)]
    assert names[0] == names[1] != names[2]
    assert str(tmp_path) not in names[0]
    assert absolute_model("hf:here") == f"hf:{Path('here').absolute()}"


@pytest.mark.parametrize(
    ("form", "words"),
    [
        (Form((10,), 3), "takes tokens, not numbers"),
        (Form((10,), 3, "class", 99), "knows 60 tokens, not 99"),
        (Form((999,), 3, "class", 60), "takes at most 512 tokens, not 999"),
        (Form((10,), 50, "tokens", 50), "predicts one of 60 tokens, not of 50"),
    ],
)
def test_a_form_that_it_cannot_take_is_refused(tmp_path: Path, form: Form, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        build_model(f"hf:{_bert(tmp_path)}", form, seed=0)


def test_a_name_on_a_hub_and_code_in_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="names on a hub are not looked up"):
        build_model("hf:bert-base-uncased", CLASSES, seed=0)
    ran = tmp_path / "ran"
    (tmp_path / "config.json").write_text(
        '{"model_type": "own", "auto_map": {"AutoConfig": "code.Config"}}', encoding="utf-8"
    )
    (tmp_path / "code.py").write_text(f"open({str(ran)!r}, 'w')", encoding="utf-8")
    with pytest.raises(ConfigError, match="is never run"):
        build_model(f"hf:{tmp_path}", CLASSES, seed=0)
    assert not ran.exists()
