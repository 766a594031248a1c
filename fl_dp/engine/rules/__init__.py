"""One rule an operator family: which form has this parameter's per-example gradient.

To support an operator, write its rule in a file here and name it in RULES.
"""

from collections.abc import Mapping

from torch import Tensor

from fl_dp.engine.gradients.layouts import Form
from fl_dp.engine.rules.convolution import convolution
from fl_dp.engine.rules.elementwise import addition, expand, multiplication, repeat
from fl_dp.engine.rules.embedding import embedding
from fl_dp.engine.rules.embedding_bag import embedding_bag
from fl_dp.engine.rules.matmul import addmm, mm
from fl_dp.engine.rules.normalization import group_norm, layer_norm
from fl_dp.engine.rules.rule import Rule, Site, refuse
from fl_dp.engine.tracing.axis import BatchAxis
from fl_dp.engine.tracing.capture import Argument, Use

RULES: Mapping[str, Rule] = {
    "AddBackward0": addition,
    "AddmmBackward0": addmm,
    "ConvolutionBackward0": convolution,
    "EmbeddingBackward0": embedding,
    "EmbeddingBagBackward0": embedding_bag,
    "ExpandBackward0": expand,
    "MmBackward0": mm,
    "MulBackward0": multiplication,
    "NativeGroupNormBackward0": group_norm,
    "NativeLayerNormBackward0": layer_norm,
    "RepeatBackward0": repeat,
}
# Whether these spread a parameter over the batch or over something else, only `probe` can tell.
_ONLY_CHECKED = frozenset({"ExpandBackward0", "RepeatBackward0"})


def check_rules(uses: tuple[Use, ...]) -> None:
    """NoRuleError for the first use that has no rule, or none without `probe`; costs only a look-up."""
    for use in uses:
        if use.node.name() not in RULES:
            refuse(use.keys[0], "that operator has no per-example gradient rule")
        if use.node.name() in _ONLY_CHECKED:
            refuse(use.keys[0], "that operator has a rule only for models that `probe` has checked")


def form_of(use: Use, argument: Argument, grad: Tensor, axis: BatchAxis, num_examples: int) -> Form:
    """The form of the gradient of one input of `use`, as the operator gets that input.

    grad: gradient of the use's output. Raises NoRuleError for a way of use that no rule covers.
    """
    if argument.key.operator not in RULES:
        refuse(argument.key, "that operator has no per-example gradient rule")
    path = argument.path
    transposed = path is not None and path.count("TBackward0") % 2 == 1
    site = Site(argument, use.node, transposed, len(use.arguments), grad, axis, num_examples)
    return RULES[argument.key.operator](site)


__all__ = ["RULES", "Rule", "Site", "check_rules", "form_of"]
