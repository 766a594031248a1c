"""Reads a run's initial weights from a file. They must be public, as the server sends them."""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from fl_dp.errors import ConfigError
from fl_dp.models.patterns import is_adapter
from fl_dp.models.weights_file import load_weights

_SHOWN = 3  # names in an error


def load_start(model: nn.Module, file: str) -> None:
    """Copy the weights in `file` into the model; an empty name does nothing. ConfigError if they do not fit.

    The file is a safetensors file, or a state dict saved by torch.save, of which only tensors are read. It
    holds the model's whole state, in its shapes; a tied parameter needs only its first name. Numbers are
    converted to the model's types. With LoRA, the weights may be those of the model without it.
    """
    if not file:
        return
    found = {_plain(name): tensor for name, tensor in _read(Path(file).expanduser()).items()}
    own_names = {_plain(name): name for name in model.state_dict()}
    expected = {_plain(name): tensor for name, tensor in model.state_dict().items()}
    optional = {name for name in expected if is_adapter(name)}
    first = {name for name, _ in model.named_parameters()}
    tied = {name for name, _ in model.named_parameters(remove_duplicate=False)} - first
    missing = sorted(expected.keys() - found.keys() - tied - optional)
    unknown = sorted(found.keys() - expected.keys())
    if missing or unknown:
        raise ConfigError(
            f"start = {file!r}: not this model's weights: missing {_named(missing)}; unknown "
            f"{_named(unknown)}."
        )
    for name, tensor in found.items():
        if tensor.shape != expected[name].shape:
            raise ConfigError(
                f"start = {file!r}: {name} has shape {tuple(tensor.shape)}, the model's has "
                f"{tuple(expected[name].shape)}."
            )
        if not tensor.isfinite().all():
            raise ConfigError(f"start = {file!r}: {name} holds numbers that are not finite.")
    model.load_state_dict({own_names[name]: t for name, t in found.items() if name not in tied}, strict=False)


def _plain(name: str) -> str:
    """The name of a layer's weights without LoRA, which moves them into the layer's `base_layer`."""
    return name.replace(".base_layer.", ".")


def _read(path: Path) -> Mapping[str, Tensor]:
    if not path.is_file():
        raise ConfigError(f"start = {str(path)!r}: no such file.")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
    except (SafetensorError, OSError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"start = {str(path)!r}: not a safetensors file ({type(error).__name__})."
        ) from None
    return load_weights(path, f"start = {str(path)!r}")


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) or "nothing") + more
