"""A client's training in its own process, on its own data."""

from collections.abc import Mapping
from typing import Any

from flwr.app import RecordDict
from torch import nn

from fl_dp.config.client import ClientConfig
from fl_dp.data.persons import Examples
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.federation.client.optimizer_state import KeptState
from fl_dp.federation.client.received import keep_received
from fl_dp.federation.client.round import PaidRound, expected_weights
from fl_dp.federation.devices import find_device
from fl_dp.federation.wire.arrays import digest_of, load_arrays, specs, state_arrays
from fl_dp.records import KEEP, RoundPlan
from fl_dp.tasks.load import in_task_code, new_model, task_of
from fl_dp.tasks.task import Task
from fl_dp.training.examples import axes_of
from fl_dp.training.optimizers import TorchDescent
from fl_dp.training.trainer import (
    Trainer,
    is_finite,
    take_steps,
    trainable,
    trainable_arrays,
    trainer_of,
)


class OwnTraining:
    """Trains the client's own task; from one round to the next only an optimizer's `KeptState` stays.

    task: in the place of the one that the settings name; given by audits alone.
    """

    def __init__(self, settings: ClientConfig, data: Examples, task: Task | None = None) -> None:
        self._settings, self._data, self._task = settings, data, task or task_of(settings)
        self._task.form = data.form
        self._model: nn.Module | None = None
        self._trainer: Trainer | None = None
        self._rows = 0
        self._kept: KeptState | None = None

    def prepare(self, plan: RoundPlan, content: RecordDict) -> None:
        """Build the model, load the weights, and find the physical batch.

        Raises DeclinedError for weights of another model, ModelError when the model cannot be protected,
        ConfigError when not one example fits the memory.
        """
        settings, data = self._settings, self._data
        model = new_model(self._task)
        weights = expected_weights(content, plan.model, specs(state_arrays(model)))
        load_arrays(model, weights)
        self._weights = digest_of(weights)
        if settings.evaluate_received:
            keep_received(settings, plan, weights)
        device = find_device(settings.device)
        model = model.to(device).train()
        with in_task_code(type(self._task), "a check of its losses"):
            axes = axes_of(model, data, device) if plan.private else None
            trainer = trainer_of(model, plan, self._task.objective, device, axes)
            trainer.check_losses()
        self._model, self._trainer = model, trainer
        self._kept = None
        if isinstance(trainer.descent, TorchDescent) and plan.optimizer_state == KEEP:
            shapes = str([tuple(parameter.shape) for parameter in trainable(model).values()])
            self._kept = KeptState.load(settings, plan, trainer.descent, shapes)
        at_most = settings.physical_batch_size
        with in_task_code(type(self._task), "a pass of random numbers"):
            if not isinstance(at_most, int):
                memory = settings.memory_mib * 2**20
                at_most = trainer.largest_physical_batch(memory, trainer.most_at_once)
            self._rows = trainer.choose_rows(at_most)
            trainer.rehearse(self._rows)  # so much memory is there

    def train(self, paid: PaidRound) -> Mapping[str, Any] | None:
        """The trainable parameters after the steps, as arrays by name; None if not finite."""
        assert self._model is not None
        assert self._trainer is not None
        state = self._kept.digest if self._kept else ""
        self._trainer.draw_from(Randomness(paid.key(self._weights, state)))
        take_steps(self._trainer, self._data, paid.steps, paid.accepted.sample_rate, self._rows)
        if self._kept and isinstance(self._trainer.descent, TorchDescent):
            self._kept.save(paid.accepted.plan.server_round, self._trainer.descent)
        return trainable_arrays(self._model) if is_finite(self._model) else None
