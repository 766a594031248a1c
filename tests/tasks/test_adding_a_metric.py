"""A metric is added by adding one file: runs can then ask for it by name."""

from typing import Any

TOP_TWO = '''\
"""Share of examples whose class is among the model's first two choices."""

from typing import Any

from torchmetrics.classification import MulticlassAccuracy

from fl_dp.form import Form
from fl_dp.tasks.metric import Metric


def _make(form: Form) -> Any:
    return MulticlassAccuracy(form.outputs, average="micro", top_k=2)


METRIC = Metric(_make, targets=("class",))
'''

USE = """\
import torch
from torch import nn

from fl_dp.choices import METRICS
from fl_dp.config.run import RunConfig
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError
from fl_dp.federation.server.evaluation import evaluate
from fl_dp.tasks.task import Task

print("top-two" in METRICS.names())
config = RunConfig(metrics="top-two, accuracy")
data = TensorData(torch.eye(4), torch.tensor([0, 1, 2, 3]), ("a", "b", "c", "d"))
task = Task(config)
task.form = data.form
model = nn.Linear(4, 4, bias=False)
# first and second choices: 0, 1 / 0, 1 / 0, 1 / 3, 2
model.weight.data = torch.tensor([[3.0, 2, 0, 1], [3, 2, 0, 1.5], [3, 2, 1, 0], [0, 1, 2, 3]]).T
result = evaluate(model, data, task, torch.device("cpu"), config.metric_names)
print(result.metrics)
try:
    RunConfig(metrics="top-three")
except ConfigError as error:
    print(error)
"""


def test_one_file_is_measured_by_name(copied: Any) -> None:
    copied.add("tasks/metrics/top_two.py", TOP_TWO)
    there, measured, unknown = copied.lines(USE)
    assert there == "True"
    assert measured == "{'top-two': 0.75, 'accuracy': 0.5}"
    assert unknown.startswith("metrics = 'top-three': expected one of 14 names, see fl-dp keys metrics")
