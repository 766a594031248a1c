"""An actor of fl_dp's simulation that trains nothing, and does all the rest."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from fl_dp.simulation.actor.training_actor import TrainingActor
from fl_dp.simulation.work import ClientWork


class IdleActor(TrainingActor):
    """Its clients take no step, alone or together: their update is the global model."""

    def _begin(self, group: Sequence[ClientWork]) -> None:
        self._group = group[0].group

    def _train(self, task: ClientWork) -> Any:
        return super()._train(dataclasses.replace(task, steps=0))
