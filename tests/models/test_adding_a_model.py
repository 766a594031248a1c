"""A model is added by adding one file: shown with a copy of fl_dp that gets one more."""

from typing import Any

MLP = '''\
"""One hidden layer."""

import math

from torch import nn

from fl_dp.form import Form
from fl_dp.models.model import Model


def perceptron(form: Form, width: str) -> nn.Module:
    hidden = nn.Linear(math.prod(form.input_shape), int(width))
    return nn.Sequential(nn.Flatten(), hidden, nn.Tanh(), nn.Linear(int(width), form.outputs))


MODEL = Model(perceptron, argument="WIDTH")
'''

USE = """\
from fl_dp.choices import MODELS
from fl_dp.config.run import RunConfig
from fl_dp.errors import FlDpError
from fl_dp.launch.preflight import check_choices, check_names, check_server
from fl_dp.form import Form
from fl_dp.models.build import build_model

print(" ".join(MODELS.names()))
print(build_model("perceptron:7", Form((1, 8, 8), 10), seed=0))
check_names(RunConfig(model="perceptron:7"))
check_server(RunConfig(model="perceptron:7"))
for config, check in (
    (RunConfig(model="perceptorn:7"), check_names),
    (RunConfig(model="perceptron"), check_choices),
    (RunConfig(model="perceptron:wide"), check_server),
):
    try:
        check(config)
    except FlDpError as error:
        print(error)
"""


def test_one_file_is_listed_built_and_checked(copied: Any) -> None:
    copied.add("models/architectures/perceptron.py", MLP)
    names, *built, unknown, without, wrong = copied.lines(USE)
    assert "perceptron" in names.split()
    assert "Linear(in_features=64, out_features=7, bias=True)" in "".join(built)
    assert unknown.startswith("model = 'perceptorn:7': expected ")
    assert unknown.endswith("did you mean perceptron?")
    assert without == "model = 'perceptron': perceptron takes an argument; write perceptron:WIDTH."
    assert wrong.startswith(
        "model = 'perceptron:wide' does not fit data of shape (1, 8, 8): invalid literal for int()"
    )
