"""Which parameters are trained; all others are frozen, at the server and at every client."""

from torch import nn

from fl_dp.models.lora import is_adapter
from fl_dp.models.patterns import chosen


def choose_trainable(model: nn.Module, patterns: str, *, adapters: bool = False) -> None:
    """Freeze, in place, all parameters except those that `patterns` choose (see `chosen`).

    Without patterns the model is unchanged. adapters: LoRA's are trained besides what is chosen, and no
    pattern needs to name them. A tied parameter is known by its first name. Raises ConfigError for patterns
    that choose nothing.
    """
    if not patterns:
        return
    own = {name: p for name, p in model.named_parameters() if not (adapters and is_adapter(name))}
    wanted = chosen("trainable", patterns, tuple(own), "parameter")
    for name, parameter in own.items():
        parameter.requires_grad_(name in wanted)
