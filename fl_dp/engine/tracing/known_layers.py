"""Layers that are known to mix examples, for texts of refusals. The checks find out whether examples mix."""

from collections.abc import Callable

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.spectral_norm import SpectralNorm

from fl_dp.errors import ModelError

_ANY = "Replace the layer (batch norm, for example, by GroupNorm), and keep the batch first in all layers."
_OF_BATCH = "Layers with statistics of the whole batch"


def refuse_parallel(model: nn.Module) -> None:
    """ModelError for a model that is copied to several devices, even if it runs on one now."""
    if found := _named(model, lambda layer: isinstance(layer, nn.DataParallel | DistributedDataParallel)):
        raise ModelError(
            f"A model in DataParallel: {found}. It is copied to several devices, where the engine cannot "
            "follow the parameters; use the module inside (its .module), on one device."
        )


def mixing_layers(model: nn.Module) -> str:
    """What to do if examples mix; names the layers that probably do so, if there are any."""
    return batch_norms(model) or batch_second_layers(model) or _ANY


def batch_norms(model: nn.Module) -> str:
    """What to do about layers with batch statistics; empty if there are none.

    `replace_batch_norms` replaces PyTorch's layers and those derived from them, such as timm's. Others are
    recognised by their names.
    """
    if known := _known_batch_norms(model):
        return known
    others = _named(model, lambda layer: layer.training and "batchnorm" in type(layer).__name__.lower())
    return f"{_OF_BATCH}, by their names: {others}. Replace them by nn.GroupNorm." if others else ""


def refuse_batch_norms(model: nn.Module) -> None:
    """ModelError for PyTorch's batch norms that would mix examples now; no pass is needed to see them."""
    if known := _known_batch_norms(model):
        raise ModelError(f"{known} Call eval() of those that the model does not use.")


def _known_batch_norms(model: nn.Module) -> str:
    found = _named(model, lambda layer: isinstance(layer, _BatchNorm) and _by_batch(layer))
    replaced = "fl_dp.models.group_norm.replace_batch_norms(model) makes group norms of them."
    return f"{_OF_BATCH}: {found}. {replaced}" if found else ""


def spectral_norms(model: nn.Module) -> str:
    """What to do about spectral norms, which write their estimate in training mode; empty without any."""
    kinds = (_SpectralNorm, SpectralNorm)
    hooks = (hook for layer in model.modules() for hook in layer._forward_pre_hooks.values())
    if not any(isinstance(one, kinds) for one in (*model.modules(), *hooks)):
        return ""
    return (
        "Spectral norm changes its estimate in every forward pass: call eval() of its layer, after each "
        "train() of the model. With torch.nn.utils.parametrizations.spectral_norm, layer.train(); "
        "layer.weight; layer.eval() renews the estimate between steps, from weights alone."
    )


def batch_second_layers(model: nn.Module) -> str:
    """What to do about recurrent and attention layers whose batch dimension is second; empty without any."""
    found = _named(model, lambda layer: getattr(layer, "batch_first", True) is False)
    if not found:
        return ""
    return (
        f"Layers that expect the batch in dimension 1: {found}. Unless the model transposes for them, pass "
        "batch_first=True where they are made (for a transformer, to its layers)."
    )


def _by_batch(norm: _BatchNorm) -> bool:
    return norm.training or norm.running_mean is None


def _named(model: nn.Module, chosen: Callable[[nn.Module], bool]) -> str:
    """The first chosen layer with its class, and the number of others; empty if there is none."""
    found = [(name, layer) for name, layer in model.named_modules() if chosen(layer)]
    if not found:
        return ""
    name, layer = found[0]
    first = f"{name or 'the model itself'} ({type(layer).__name__})"
    return f"{first} and {len(found) - 1} more" if len(found) > 1 else first
