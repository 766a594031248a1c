"""The default metric is that of torchmetrics, without what its import brings."""

import math
import subprocess
import sys

import pytest
import torch
from torchmetrics.classification import MulticlassAccuracy

from fl_dp.tasks.right_answers import NO_TARGET, RightAnswers


@pytest.mark.parametrize("shape", [(7,), (4, 5)])
def test_it_is_the_accuracy_of_torchmetrics_over_all_batches(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(1)
    ours, theirs = RightAnswers(), MulticlassAccuracy(3, average="micro", ignore_index=NO_TARGET)
    for _ in range(5):
        answers, targets = (torch.randint(3, shape, generator=generator) for _ in range(2))
        targets[torch.rand(shape, generator=generator) < 0.3] = NO_TARGET
        ours.update(answers, targets)
        theirs.update(answers, targets)
    assert float(ours.compute()) == pytest.approx(float(theirs.compute()), abs=1e-6)


def test_without_a_question_there_is_no_share() -> None:
    none = RightAnswers()
    assert math.isnan(none.compute())
    none.update(torch.tensor([1]), torch.tensor([NO_TARGET]))
    assert math.isnan(none.compute())


def test_the_metrics_of_a_run_that_names_none_import_neither_torchmetrics_nor_triton() -> None:
    code = (
        "import sys\n"
        "import fl_dp.tasks.metrics.accuracy, fl_dp.tasks.metrics.label_accuracy\n"
        "print([name for name in ('torchmetrics', 'torchvision', 'triton') if name in sys.modules])\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"
