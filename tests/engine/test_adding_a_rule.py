"""Adding a rule takes one new file: shown on a copy of the package, with an operator that has no rule."""

import re
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from fl_dp.choices import Choices
from fl_dp.engine.rule import Rule
from fl_dp.engine.rule_table import RULES, gathered
from fl_dp.errors import ConfigError

ROOT = Path(__file__).parents[2]
# The example of docs/engine.md, as it stands there.
PRELU = re.search(r'```python\n("""PReLU.*?)```', (ROOT / "docs/engine.md").read_text(), re.DOTALL)

# Against one backward per example, in float64; without `probe` no fallback could answer instead of the rule.
SCRIPT = """
import torch
from torch import nn
import fl_dp
from fl_dp.engine.clipping import clipped_grad_sum
from fl_dp.engine.probe import probe

print(fl_dp.__file__)
torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.PReLU(4), nn.Conv2d(4, 3, 2))
parameters = dict(model.named_parameters())
inputs = torch.randn(7, 2, 6, 6)

def losses(x):
    return model(x).flatten(1).sin().sum(1)

expected = {name: torch.zeros_like(p) for name, p in parameters.items()}
for n in range(7):
    grads = torch.autograd.grad(losses(inputs[n : n + 1]).sum(), list(parameters.values()))
    factor = min(1.0, 0.3 / float(torch.stack([g.norm() for g in grads]).norm()))
    for name, grad in zip(parameters, grads):
        expected[name] += factor * grad
axes = probe(model, inputs)
assert not axes.fallback, axes.fallback
for known in (axes, None):
    found = clipped_grad_sum(losses(inputs), parameters, max_grad_norm=0.3, axes=known).grads
    for name, grad in expected.items():
        torch.testing.assert_close(found[name], grad, rtol=1e-9, atol=1e-9)
print("equal")
"""


def test_one_file_is_a_rule(copied):
    assert "PreluKernelBackward0" not in RULES
    assert PRELU is not None
    copied.add("engine/rules/prelu.py", PRELU[1])
    assert copied.lines(SCRIPT) == [str(copied.folder / "fl_dp" / "__init__.py"), "equal"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of rules with one file, and a function that adds another."""
    monkeypatch.syspath_prepend(tmp_path)
    package = f"rules_of_{tmp_path.name}"  # modules are imported once: each test has its own
    (tmp_path / package).mkdir()

    def add(file, text):
        (tmp_path / package / f"{file}.py").write_text(f"from fl_dp.engine.rule import Rule\n{text}\n")
        return Choices("rule", package, "RULES")

    add("__init__", "")
    add("one", "RULES = {'XBackward0': Rule(print)}")
    return add


def test_the_rules_of_all_files_are_gathered(folder):
    choices = folder("another", "RULES = {'YBackward0': Rule(repr, only_checked=True)}")
    assert gathered(choices) == {"XBackward0": Rule(print), "YBackward0": Rule(repr, only_checked=True)}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("RULES = {'XBackward0': Rule(repr)}", "another and one both have a rule for XBackward0; remove one"),
        ("RULES = {'YBackward0': repr}", r"another: RULES\['YBackward0'\] is not a Rule"),
        ("", "another cannot be used: its RULES is nothing"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_by_name(folder, text, words):
    choices = folder("another", text)
    with pytest.raises(ConfigError, match=words):
        gathered(choices)


def test_another_packages_rule_is_not_taken(folder, monkeypatch):
    """What is clipped rests on rules: a package that is only installed cannot bring one in."""
    entry = EntryPoint("another", "builtins:dict", "fl_dp.rules")
    monkeypatch.setattr("fl_dp.choices.entry_points", lambda group: [entry])
    choices = folder("__init__", "")
    assert "another" in choices.names()
    assert gathered(choices) == {"XBackward0": Rule(print)}
