"""An actor of fl_dp's simulation that trains nothing, and does all the rest."""

import dataclasses
from typing import Any

from fl_dp.simulation.actor import TrainingActor
from fl_dp.simulation.tasks import Task


class IdleActor(TrainingActor):
    """Its clients take no step: their update is the global model."""

    def _train(self, task: Task) -> Any:
        return super()._train(dataclasses.replace(task, steps=0))
