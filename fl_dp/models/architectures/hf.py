"""Models of the transformers library from a local folder: no downloads, and no code from the folder."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fl_dp.errors import ConfigError
from fl_dp.form import Form
from fl_dp.models.build import Model
from fl_dp.models.expect import expect_tokens
from fl_dp.optional import require_package

_CONFIG, _WEIGHTS = "config.json", ("model.safetensors", "model.safetensors.index.json")


def transformers_model(form: Form, folder: str) -> nn.Module:
    """The model in `folder`, which holds config.json and, if it is pretrained, model.safetensors.

    Only architectures of the transformers library: its causal language model for next tokens, else its
    sequence classifier. Weights that the folder lacks, such as a head's, are random. In float32, without
    dropout. ConfigError for a folder without such a model, ValueError for a form that the model does not fit.
    """
    length = expect_tokens(form)
    config = _config(Path(folder))
    if form.vocabulary > config.vocab_size:
        raise ValueError(f"it knows {config.vocab_size} tokens, not {form.vocabulary}")
    longest = getattr(config, "max_position_embeddings", None)
    if longest is not None and length > longest:
        raise ValueError(f"it takes at most {longest} tokens, not {length}")
    if form.targets == "tokens" and form.outputs != config.vocab_size:
        raise ValueError(f"it predicts one of {config.vocab_size} tokens, not of {form.outputs}")
    return TokensToLogits(_model(Path(folder), config, form), _padding(config))


class TokensToLogits(nn.Module):
    """Tokens (n, T) to the logits of `model`. padding: the token that is masked in attention, -1 for none."""

    def __init__(self, model: nn.Module, padding: int) -> None:
        super().__init__()
        self.model, self.padding = model, padding

    def forward(self, tokens: Tensor) -> Tensor:
        mask = (tokens != self.padding).long()
        logits: Tensor = self.model(input_ids=tokens, attention_mask=mask, use_cache=False).logits
        return logits


def _config(folder: Path) -> Any:
    require_package("transformers", "model = 'hf:PATH'")
    _text(folder)
    from transformers import AutoConfig  # late: it is optional, and takes seconds

    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (ValueError, OSError, KeyError) as error:
        raise ConfigError(
            f"model = 'hf:{folder}': {_CONFIG} names no architecture of transformers itself; code in the "
            "folder is never run."
        ) from error
    for name, value in vars(config).items():
        if "drop" in name and isinstance(value, float):
            setattr(config, name, 0.0)
    return config


def _model(folder: Path, config: Any, form: Form) -> nn.Module:
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification  # late: as above

    kind: Any = AutoModelForCausalLM if form.targets == "tokens" else AutoModelForSequenceClassification
    if form.targets != "tokens":
        config.num_labels = form.outputs
    elif hasattr(config, "is_decoder"):  # an encoder such as BERT, where no position sees later ones
        config.is_decoder = True
    options = {"dtype": torch.float32, "trust_remote_code": False}
    model: nn.Module
    if any((folder / name).is_file() for name in _WEIGHTS):
        model = kind.from_pretrained(
            folder, config=config, local_files_only=True, use_safetensors=True, **options
        )
    else:
        model = kind.from_config(config, **options)
    return model


def _padding(config: Any) -> int:
    padding = getattr(config, "pad_token_id", None)
    return -1 if padding is None else int(padding)


def _text(folder: Path) -> str:
    try:
        return (folder / _CONFIG).expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"model = 'hf:{folder}': expected a folder with {_CONFIG} and model.safetensors, as "
            "save_pretrained leaves it; names on a hub are not looked up."
        ) from error


def _architecture(folder: str) -> str:
    """A digest of config.json, by which sites see that they mean the same model."""
    try:
        content = json.loads(_text(Path(folder)))
    except ValueError as error:
        raise ConfigError(f"model = 'hf:{folder}': {_CONFIG} is not JSON.") from error
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


MODEL = Model(transformers_model, argument="PATH", common=_architecture)
