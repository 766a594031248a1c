"""Start weights, parameters by pattern, and LoRA."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from fl_dp import optional
from fl_dp.config.task import TaskSettings
from fl_dp.engine.clipping import clipped_grad_sum
from fl_dp.engine.probe import probe
from fl_dp.errors import ConfigError
from fl_dp.models.lora import merged, with_lora
from fl_dp.models.patterns import choose_trainable, is_adapter
from fl_dp.models.start import load_start


def _net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def _trained(model: nn.Module) -> list[str]:
    return [name for name, p in model.named_parameters() if p.requires_grad]


@pytest.mark.parametrize(
    ("patterns", "left"),
    [
        ("", ["0.weight", "0.bias", "2.weight", "2.bias"]),
        ("2.*", ["2.weight", "2.bias"]),
        ("2.*, !*.bias", ["2.weight"]),
        ("!0.weight", ["0.bias", "2.weight", "2.bias"]),
        ("0.bias,2.bias", ["0.bias", "2.bias"]),
    ],
)
def test_what_the_patterns_choose_is_trained(patterns: str, left: list[str]) -> None:
    model = _net()
    choose_trainable(model, patterns)
    assert _trained(model) == left
    frozen = _net().requires_grad_(False)
    choose_trainable(frozen, patterns)
    assert _trained(frozen) == (left if patterns else [])


@pytest.mark.parametrize(
    ("patterns", "words"),
    [
        ("head.*", r"'head\.\*' matches no parameter; there are 0\.weight"),
        ("0.*,!head.*", r"'!head\.\*' matches no parameter"),
        ("0.*,!0.*", "leaves no parameter"),
    ],
)
def test_a_pattern_that_chooses_nothing_is_refused_with_names(patterns: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        choose_trainable(_net(), patterns)


@pytest.mark.parametrize("kind", ["safetensors", "pt"])
def test_start_weights_are_those_of_the_file(tmp_path: Path, kind: str) -> None:
    source, model, file = _net(), _net(), tmp_path / f"start.{kind}"
    state = source.state_dict()
    save_file(state, file) if kind == "safetensors" else torch.save(state, file)
    load_start(model, str(file))
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    load_start(model, "")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"2.bias": torch.zeros(5)}, r"2\.bias has shape \(5,\), the model's has \(3,\)"),
        ({"7.bias": torch.zeros(5)}, r"missing nothing; unknown 7\.bias"),
        ({"0.weight": None}, r"missing 0\.weight; unknown nothing"),
        ({"0.bias": torch.full((6,), torch.nan)}, r"0\.bias holds numbers that are not finite"),
    ],
)
def test_other_weights_are_refused_with_names_and_shapes(
    tmp_path: Path, change: dict[str, torch.Tensor | None], words: str
) -> None:
    state = {**_net().state_dict(), **change}
    torch.save({name: value for name, value in state.items() if value is not None}, tmp_path / "start.pt")
    with pytest.raises(ConfigError, match=words):
        load_start(_net(), str(tmp_path / "start.pt"))


def test_a_pickle_is_not_run_and_a_missing_file_is_named(tmp_path: Path) -> None:
    torch.save(_net(), tmp_path / "start.pt")
    (tmp_path / "start.safetensors").write_bytes(b"no tensors")
    for name, words in (
        ("start.pt", r"start = .*: cannot be read as weights"),
        ("start.safetensors", "not a safetensors file"),
        ("other.pt", "no such file"),
    ):
        with pytest.raises(ConfigError, match=words):
            load_start(_net(), str(tmp_path / name))


def test_what_is_trained_is_said_in_words_that_sites_compare() -> None:
    assert TaskSettings().trained == ""
    settings = TaskSettings(trainable="head.*", lora="8:*.qkv")
    assert settings.trained == "head.*; lora 8 of *.qkv"
    for wrong in ("8", "8:", "0:*", "-1:*", "x:*", "²:*", "99999999:*", "*.qkv"):
        with pytest.raises(ConfigError, match="RANK:PATTERNS"):
            TaskSettings(lora=wrong)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="lora needs the package peft, which is not installed: pip"):
        with_lora(_net(), 2, "*")


@pytest.mark.filterwarnings("ignore")
class TestLora:
    @pytest.fixture(autouse=True)
    def _peft(self) -> None:
        pytest.importorskip("peft")

    def test_only_adapters_and_what_is_named_are_trained(self) -> None:
        model = with_lora(_net(), 2, "0")
        assert _trained(model) == ["0.lora_A.default.weight", "0.lora_B.default.weight"]
        choose_trainable(model, "2.bias", adapters=True)
        assert _trained(model) == ["0.lora_A.default.weight", "0.lora_B.default.weight", "2.bias"]
        assert [n for n, _ in model.named_parameters() if is_adapter(n)] == _trained(model)[:2]

    def test_targets_that_are_none_are_refused(self) -> None:
        with pytest.raises(ConfigError, match="'1' matches no layer that can have adapters; there are 0, 2"):
            with_lora(_net(), 2, "1")

    def test_the_model_starts_as_it_was_and_can_be_protected(self) -> None:
        plain, x = _net(), torch.randn(5, 4)
        before = plain(x)
        model = with_lora(plain, 2, "*")
        assert torch.equal(model(x), before)
        axes = probe(model, x)
        assert not axes.fallback
        parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
        found = clipped_grad_sum(model(x).square().sum(1), parameters, max_grad_norm=1e9, axes=axes)
        whole = torch.autograd.grad(model(x).square().sum(), list(parameters.values()))
        pairs = zip(found.grads.values(), whole, strict=True)
        assert all(torch.allclose(mine, its, atol=1e-4) for mine, its in pairs)

    def test_merged_computes_the_same_under_the_names_of_before(self) -> None:
        plain, x = _net(), torch.randn(5, 4)
        names = set(plain.state_dict())
        model = with_lora(plain, 2, "*")
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                nn.init.normal_(parameter)
        out = merged(model)
        assert set(out.state_dict()) == names
        assert torch.allclose(out(x), model(x), atol=1e-5)
        assert any(is_adapter(name) for name, _ in model.named_parameters())

    def test_start_weights_are_those_of_the_model_without_adapters(self, tmp_path: Path) -> None:
        source = _net()
        save_file(source.state_dict(), tmp_path / "start.safetensors")
        model, x = with_lora(_net(), 2, "0"), torch.randn(5, 4)
        load_start(model, str(tmp_path / "start.safetensors"))
        assert torch.equal(model(x), source(x))
