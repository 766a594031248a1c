"""The task of a config's settings, with an audit's own model in place of its model."""

from torch import nn

from fl_dp.config.task import TaskSettings
from fl_dp.tasks.task import Task


class GivenTask(Task, built_in=True):
    """model: trained in place. settings: of the loss and of the unit."""

    def __init__(self, model: nn.Module, settings: TaskSettings) -> None:
        super().__init__(settings)
        self._model = model

    def model(self) -> nn.Module:
        return self._model
