"""An audit's own model in the place of the task that settings name; loss and data are what they were."""

from torch import nn

from fl_dp.config.task import TaskSettings
from fl_dp.tasks.task import Task


class GivenTask(Task, built_in=True):
    """model: trained in place. loss: a name in `training/losses/`. class_weights: as of `TaskSettings`."""

    def __init__(self, model: nn.Module, loss: str, class_weights: str = "") -> None:
        super().__init__(TaskSettings(loss=loss, class_weights=class_weights))
        self._model = model

    def model(self) -> nn.Module:
        return self._model
