"""A model is added by adding one file: shown with a copy of fl_dp that gets one more."""

from typing import Any

MLP = '''\
"""One hidden layer."""

import math

from torch import nn

from fl_dp.form import Form
from fl_dp.models.model import Model


def mlp(form: Form, width: str) -> nn.Module:
    hidden = nn.Linear(math.prod(form.input_shape), int(width))
    return nn.Sequential(nn.Flatten(), hidden, nn.Tanh(), nn.Linear(int(width), form.outputs))


MODEL = Model(mlp, argument="WIDTH")
'''

USE = """\
from fl_dp.choices import MODELS
from fl_dp.config.run import RunConfig
from fl_dp.errors import FlDpError
from fl_dp.launch.preflight import check_choices, check_names, check_server
from fl_dp.form import Form
from fl_dp.models.build import build_model

print(" ".join(MODELS.names()))
print(build_model("mlp:7", Form((1, 8, 8), 10), seed=0))
check_names(RunConfig(model="mlp:7"))
check_server(RunConfig(model="mlp:7"))
for config, check in (
    (RunConfig(model="mpl:7"), check_names),
    (RunConfig(model="mlp"), check_choices),
    (RunConfig(model="mlp:wide"), check_server),
):
    try:
        check(config)
    except FlDpError as error:
        print(error)
"""


def test_one_file_is_listed_built_and_checked(copied: Any) -> None:
    copied.add("models/architectures/mlp.py", MLP)
    names, *built, unknown, without, wrong = copied.lines(USE)
    assert "mlp" in names.split()
    assert "Linear(in_features=64, out_features=7, bias=True)" in "".join(built)
    assert unknown.startswith("model = 'mpl:7': expected ")
    assert " mlp " in unknown
    assert without == "model = 'mlp': mlp takes an argument; write mlp:WIDTH."
    assert wrong.startswith(
        "model = 'mlp:wide' does not fit data of shape (1, 8, 8): invalid literal for int()"
    )
