"""Class weights, and a loss that is not for the data's targets: said before anything is computed."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fl_dp.config.client import ClientConfig
from fl_dp.config.task import TaskSettings
from fl_dp.errors import ConfigError, DeclinedError
from fl_dp.federation.client.policy import check_plan
from fl_dp.form import Form
from fl_dp.records import RoundPlan
from fl_dp.tasks.task import Task


def task_for(form: Form, kind: type[Task] = Task, **settings: str) -> Task:
    task = kind(TaskSettings(**settings))
    task.form = form
    return task


def test_losses_are_multiplied_by_their_classes_weights() -> None:
    torch.manual_seed(0)
    model, inputs, targets = nn.Linear(4, 3), torch.randn(9, 4), torch.arange(9) % 3
    task = task_for(Form((4,), 3), class_weights="1, 5,0.5")
    weights = torch.tensor([1.0, 5.0, 0.5])
    expected = F.cross_entropy(model(inputs), targets, weight=weights, reduction="none")
    torch.testing.assert_close(task.objective.losses(model, (inputs, targets)), expected)


def test_a_task_may_weigh_each_record() -> None:
    class Ours(Task):
        def weights(self, inputs: Tensor, targets: Tensor) -> Tensor:
            return 1 + inputs[:, 0].abs()

    model, inputs, targets = nn.Linear(4, 3), torch.randn(9, 4), torch.arange(9) % 3
    found = task_for(Form((4,), 3), Ours).objective.losses(model, (inputs, targets))
    plain = F.cross_entropy(model(inputs), targets, reduction="none")
    torch.testing.assert_close(found, plain * (1 + inputs[:, 0].abs()))


@pytest.mark.parametrize("text", ["1,x", "1,,2", "0,1", "-1,1", "1,nan", "1,inf", "1,1001", ","])
def test_what_is_no_weight_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"class-weights = .*: expected a number above 0, of at most 1000"):
        TaskSettings(class_weights=text)


def test_weights_are_one_for_each_class() -> None:
    class Ours(Task):
        def losses(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
            return model(batch[0]).square().sum(1)

    for task, words in (
        (task_for(Form((4,), 3), class_weights="1,5"), "class-weights = '1,5': expected 3 numbers"),
        (task_for(Form((4,), 2, "numbers"), class_weights="1,5", loss="mse"), "expected none, as there"),
        (task_for(Form((4,), 3), Ours, class_weights="1,5,1"), r"this task has its own losses\(\)"),
    ):
        with pytest.raises(ConfigError, match=words):
            task.check_loss()
    task_for(Form((4,), 1, "numbers"), Ours).check_loss()  # its own business


def test_sites_that_weigh_otherwise_do_not_train_together() -> None:
    plan = RoundPlan("run", 1, "linear", 1, 8, 0.5, 0.0, 1.0, 1.0, class_weights="1,5")
    own = {"client": "0", "ledger": "x.sqlite"}
    check_plan(plan, ClientConfig(**own, class_weights="1, 5"), public_size=64)
    for other in ("", "5,1"):
        with pytest.raises(DeclinedError, match="class-weights '1,5', this client's own settings have"):
            check_plan(plan, ClientConfig(**own, class_weights=other), public_size=64)


@pytest.mark.parametrize(
    ("loss", "form", "words"),
    [
        (
            "cross-entropy",
            Form((4,), 1, "numbers"),
            r"of kind class or tokens, and the data's are of kind numbers; use bce or mse.*argmax\(1\)",
        ),
        ("mse", Form((4,), 3), "'mse': is for targets of kind numbers, and the data's are of kind class"),
        ("bce", Form((5,), 9, "tokens", 9), "the data's are of kind tokens; use cross-entropy"),
    ],
)
def test_a_loss_for_other_targets_is_refused(loss: str, form: Form, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        _ = task_for(form, loss=loss).objective
