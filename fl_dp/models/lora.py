"""Low-rank adapters (Hu et al. 2021, arXiv 2106.09685) by the `peft` library: W + B A; A and B are trained.

Updates contain only what is trained: with LoRA, only the adapters.
"""

import copy

from torch import nn

from fl_dp.errors import ModelError
from fl_dp.models.patterns import chosen, is_adapter
from fl_dp.optional import require_package


def with_lora(model: nn.Module, rank: int, targets: str) -> nn.Module:
    """`model`, changed in place: with adapters of that rank, which alone are trained. Rank 0 changes nothing.

    targets: patterns of layer names, see `chosen`: of linear layers, embeddings, convolutions, and Conv1D of
    transformers. A starts random and B at zero, so that the model computes the same at first. The adapters'
    output is scaled by 2 (alpha is twice the rank). ConfigError for wrong targets, or without the library.
    """
    if not rank:
        return model
    require_package("peft", "lora")
    layers = [name for name, module in model.named_modules() if _can_have_adapters(module)]
    names = chosen("lora", targets, layers, "layer that can have adapters")
    from peft import LoraConfig, inject_adapter_in_model  # late: it is optional, and takes seconds

    config = LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules=sorted(names))
    try:
        changed: nn.Module = inject_adapter_in_model(config, model)
    except (ValueError, NotImplementedError) as error:
        raise ModelError(f"lora: {targets!r}: {' '.join(str(error).split())}") from error
    return changed


def merged(model: nn.Module) -> nn.Module:
    """A copy that computes the same without adapters, which are added to their layers' weights.

    Its parameters have the names of the model before LoRA.
    """
    plain = copy.deepcopy(model)
    if not any(is_adapter(name) for name, _ in plain.named_parameters()):
        return plain
    require_package("peft", "lora")
    from peft.tuners.tuners_utils import BaseTunerLayer  # late: as above

    for name, module in list(plain.named_modules()):
        if isinstance(module, BaseTunerLayer):
            module.merge(safe_merge=True)
            plain.set_submodule(name, module.get_base_layer())
    return plain


def _can_have_adapters(module: nn.Module) -> bool:
    kinds = (nn.Linear, nn.Embedding, nn.Conv1d, nn.Conv2d)
    return isinstance(module, kinds) or type(module).__name__ == "Conv1D"
