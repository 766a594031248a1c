"""An actor of fl_dp's simulation that trains nothing, and does all the rest."""

import dataclasses
from typing import Any

from fl_dp.simulation.actor.training_actor import TrainingActor
from fl_dp.simulation.work import ClientWork


class IdleActor(TrainingActor):
    """Its clients take no step: their update is the global model."""

    def _train(self, item: ClientWork) -> Any:
        return super()._train(dataclasses.replace(item, steps=0))
