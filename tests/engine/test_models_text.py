"""Hugging Face's encoders and decoders, on small configurations, as they are called: by keywords."""

import pytest
import torch
from structured import Batch, Called, assert_equals_definition, call
from torch import nn

from fl_dp.engine.probe import probe
from fl_dp.errors import ModelError

pytestmark = pytest.mark.usefixtures("exact")

transformers = pytest.importorskip("transformers")

ENCODER = {
    "vocab_size": 31,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 20,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
DISTILLED = {
    "vocab_size": 31,
    "dim": 16,
    "n_layers": 2,
    "n_heads": 2,
    "hidden_dim": 24,
    "max_position_embeddings": 20,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "seq_classif_dropout": 0.0,
}
GPT2 = {
    "vocab_size": 31,
    "n_positions": 20,
    "n_embd": 16,
    "n_layer": 2,
    "n_head": 2,
    "resid_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
LLAMA = {
    "vocab_size": 31,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}
T5 = {
    "vocab_size": 31,
    "d_model": 16,
    "d_kv": 8,
    "d_ff": 24,
    "num_layers": 2,
    "num_heads": 2,
    "dropout_rate": 0.0,
}


def _ids(n: int) -> torch.Tensor:
    return torch.randint(3, 31, (n, 5))


def _plain(n: int) -> Batch:
    return call(input_ids=_ids(n))


def _padded(n: int) -> Batch:
    mask = (torch.arange(5) < 5 - torch.arange(n)[:, None] % 3).long()
    return call(input_ids=_ids(n), attention_mask=mask)


def _typed(n: int) -> Batch:
    return call(**_padded(n)[1], token_type_ids=torch.randint(0, 2, (n, 5)))


CASES = {
    "BERT, classifying": ("BertForSequenceClassification", "BertConfig", ENCODER, _typed),
    "BERT, filling in, tied": ("BertForMaskedLM", "BertConfig", ENCODER, _typed),
    "BERT": ("BertModel", "BertConfig", ENCODER, _padded),
    "RoBERTa": ("RobertaForSequenceClassification", "RobertaConfig", ENCODER, _padded),
    "DistilBERT": ("DistilBertForSequenceClassification", "DistilBertConfig", DISTILLED, _padded),
    "GPT-2, tied": ("GPT2LMHeadModel", "GPT2Config", GPT2, _padded),
    "GPT-2, classifying": ("GPT2ForSequenceClassification", "GPT2Config", GPT2, _plain),
    "Llama, grouped queries": ("LlamaForCausalLM", "LlamaConfig", LLAMA, _padded),
}


def _model(name: str, config: str, options: dict, attention: str = "sdpa") -> nn.Module:
    made = getattr(transformers, config)(**options, attn_implementation=attention)
    return getattr(transformers, name)(made).double()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_equals_one_backward_per_example(case, attention):
    name, config, options, sample = CASES[case]
    assert_equals_definition(_model(name, config, options, attention), sample, sizes=(1, 7))


def test_an_encoder_and_a_decoder():
    model = _model("T5ForConditionalGeneration", "T5Config", T5, "eager")
    assert_equals_definition(
        model, lambda n: call(input_ids=_ids(n), decoder_input_ids=_ids(n)), sizes=(1, 7)
    )


def test_a_mixture_of_experts():
    options = {**LLAMA, "num_local_experts": 2, "num_experts_per_tok": 1, "experts_implementation": "eager"}
    model = _model("MixtralForCausalLM", "MixtralConfig", options)
    assert_equals_definition(model, _plain, sizes=(1, 7))


def test_a_batch_encoding_is_a_mapping():
    model = Called(nn.Embedding(31, 4), lambda m, encoding: m(encoding.input_ids))
    assert probe(model, transformers.BatchEncoding({"input_ids": _ids(5)})).batch


def test_a_loss_that_the_model_takes_itself_is_refused():
    model = _model("GPT2LMHeadModel", "GPT2Config", GPT2)
    with pytest.raises(ModelError, match=r"output \['loss'\] has shape \(\)\. .* losses outside the model"):
        probe(model, input_ids=_ids(5), labels=_ids(5))
