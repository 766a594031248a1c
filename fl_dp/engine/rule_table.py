"""All rules, collected from the folder rules/, where each file names the operators that it covers."""

from collections.abc import Mapping

from torch import Tensor

from fl_dp.choices import RULES as FOLDER
from fl_dp.choices import Choices
from fl_dp.engine.gradients.layouts import GradientLayout
from fl_dp.engine.rule import Rule, Site, refuse
from fl_dp.engine.saved import SavedNode
from fl_dp.engine.tracing.axis import BatchAxis
from fl_dp.engine.tracing.capture import Argument, Use
from fl_dp.errors import ConfigError


def gathered(folder: Choices) -> Mapping[str, Rule]:
    """The rules of all files in `folder`, by operator; ConfigError if two files cover one operator.

    Only our own files count, because clipping rests on them. An operator without a rule is also handled
    exactly, only more slowly.
    """
    rules: dict[str, Rule] = {}
    of_file: dict[str, str] = {}
    for file in folder.built_in():
        for operator, rule in folder.load(file, dict).items():
            if not isinstance(rule, Rule):
                raise ConfigError(f"{folder.package}.{file}: {folder.constant}[{operator!r}] is not a Rule.")
            if operator in rules:
                raise ConfigError(
                    f"{folder.package}: {of_file[operator]} and {file} both have a rule for {operator}; "
                    "remove one of them."
                )
            rules[operator], of_file[operator] = rule, file
    return rules


RULES = gathered(FOLDER)


def check_rules(uses: tuple[Use, ...]) -> None:
    """NoRuleError unless every use has a rule that needs no `probe`; costs one lookup per use."""
    for use in uses:
        rule = RULES.get(use.node.name())
        if rule is None:
            refuse(use.keys[0], "that operator has no per-example gradient rule")
        if rule.only_checked:
            refuse(use.keys[0], "that operator has a rule only for models that `probe` has checked")


def layout_of(
    node: SavedNode, use: Use, argument: Argument, grad: Tensor, axis: BatchAxis, num_examples: int
) -> GradientLayout:
    """The layout of the gradient of one input of `use`, in the shape in which the operator gets it.

    node: reads what the use's node has saved. grad: gradient of the use's output.
    Raises NoRuleError for a use that no rule covers.
    """
    rule = RULES.get(argument.key.operator)
    if rule is None:
        refuse(argument.key, "that operator has no per-example gradient rule")
    path = argument.path
    transposed = path is not None and path.count("TBackward0") % 2 == 1
    site = Site(argument, node, transposed, len(use.arguments), grad, axis, num_examples)
    return rule.layout_of(site)
