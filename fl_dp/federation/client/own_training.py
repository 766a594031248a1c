"""A client's training in its own process, on its own data."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from flwr.app import RecordDict

from fl_dp.config.client import ClientConfig
from fl_dp.data.persons import Examples
from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.noise.gaussian import count_of
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.errors import DeclinedError
from fl_dp.federation.client.kept_rows import check_once, kernels_of, rows_of
from fl_dp.federation.client.kept_states import OwnStates
from fl_dp.federation.client.lost_rounds import LostRounds
from fl_dp.federation.client.payment import AcceptedRound, Paid
from fl_dp.federation.client.round import expected_weights
from fl_dp.federation.devices import find_devices
from fl_dp.federation.secure_sum.participant import Participant
from fl_dp.federation.secure_sum.vector import check_grid, flat
from fl_dp.federation.secure_sum.wire import MASKED
from fl_dp.federation.wire.arrays import NDArray, digest_of, load_arrays, specs, state_arrays
from fl_dp.records import RoundPlan
from fl_dp.tasks.load import in_task_code, new_model, task_of
from fl_dp.tasks.task import Task
from fl_dp.training.examples import axes_of
from fl_dp.training.kept import digest_of_state, go_on_from, state_of
from fl_dp.training.trainer import (
    Trainer,
    as_arrays,
    take_steps,
    trainer_of,
    update_of,
)
from fl_dp.weights_digest import weights_digest


class OwnTraining:
    """Trains the client's own task. Between rounds only what `OwnStates` holds is kept.

    task: replaces the task that the settings name; only audits pass it.
    trainer, at_most, rows: set by `prepare`. at_most: examples in memory at once; rows: of each pass.
    gives_to_sums: whether its result goes only into a secure sum.
    """

    gives_to_sums = False

    def __init__(self, settings: ClientConfig, data: Examples, task: Task | None = None) -> None:
        self._settings, self._data, self._task = settings, data, task or task_of(settings)
        self._task.form = data.form
        self.trainer: Trainer | None = None
        self.at_most = self.rows = 0
        self._states: OwnStates | None = None
        self._digests = "", ""  # of the received weights, and of the state that training continues from

    def prepare(self, plan: RoundPlan, content: RecordDict) -> None:
        """Build the model, load the weights, and find the physical batch.

        Raises DeclinedError for weights of another model, and for weights so large that no gradient is finite
        (tested with random numbers, not with records); ModelError if the model cannot be protected;
        ConfigError if not one example fits the memory.
        """
        if plan.secure and not self.gives_to_sums:
            raise DeclinedError(
                "the round asks for a step with only a share of the noise outside of a secure sum: it would "
                "have less noise than is accounted for."
            )
        settings, objective = self._settings, self._task.objective
        model = new_model(self._task)
        weights = expected_weights(content, plan.model, specs(state_arrays(model)))
        self.check_received(weights)
        load_arrays(model, weights)
        device, *more = devices = find_devices(settings.device)
        model = model.to(device).train()
        with in_task_code(type(self._task), "a check of its losses"):
            axes = axes_of(model, objective, device) if plan.private else None
            trainer = trainer_of(model, plan, objective, device, axes, more_devices=more)
            trainer.check_losses()
        self.trainer, self._states = trainer, OwnStates(settings, trainer)
        state = self._states.before(plan.server_round)
        go_on_from(trainer, {name: torch.tensor(one, device=device) for name, one in weights.items()}, state)
        self._digests = digest_of(weights), digest_of_state(state)
        at_most = settings.physical_batch_size
        with in_task_code(type(self._task), "a pass of random numbers"):
            memory = settings.memory_mib * 2**20
            if not isinstance(at_most, int):
                at_most = trainer.largest_physical_batch(memory, trainer.most_at_once)
            self.at_most = at_most
            self.rows = rows_of(settings, plan, devices, at_most, partial(trainer.choose_rows, at_most))

            def choose() -> Mapping[str, str]:
                trainer.fit_kernels(memory, self.rows)
                return trainer.kernels

            trainer.use_kernels(kernels_of(settings, plan, devices, self.rows, choose))
            rehearsed = trainer.rehearse(self.rows)  # makes sure that the memory suffices
            check_once(settings, plan, devices, self.rows, trainer.kernels, trainer.check_rows)
        if isinstance(rehearsed, ClippedSum) and rehearsed.num_non_finite == len(rehearsed.norms):
            raise DeclinedError(
                f"the weights received for model {plan.model} are too large: no example of ordinary numbers "
                "has a finite gradient there, so the budget would pay for noise alone."
            )

    def check_received(self, weights: Mapping[str, NDArray]) -> None:
        """DeclinedError for weights from which this round may not start."""

    def train(self, paid: Paid[AcceptedRound]) -> Mapping[str, Any] | None:
        """Take the steps; returns the arrays that leave the client, by name, or None if not finite."""
        assert self.trainer is not None
        assert self._states is not None
        self.trainer.draw_from(Randomness(paid.key(*self._digests)))
        take_steps(self.trainer, self._data, paid.steps, paid.accepted.sample_rate, self.rows)
        update = update_of(self.trainer)
        if update is None:
            return None
        self._states.save(paid.accepted.plan.server_round, state_of(self.trainer))
        return as_arrays(update)


class MaskedTraining(OwnTraining):
    """A single step for a secure sum: trained like any step, checked against what was signed, masked.

    participant: has accepted what all members have signed. lost: counts sums that are paid for.
    """

    gives_to_sums = True

    def __init__(
        self, settings: ClientConfig, data: Examples, participant: Participant, lost: LostRounds
    ) -> None:
        super().__init__(settings, data)
        self._participant, self._lost = participant, lost

    def prepare(self, plan: RoundPlan, content: RecordDict) -> None:
        """As in `OwnTraining`; also DeclinedError unless the grid is the one that was signed."""
        super().prepare(plan, content)
        assert self.trainer is not None
        check_grid(self._participant.head, count_of(self.trainer.algorithm.parameters.values()))

    def check_received(self, weights: Mapping[str, NDArray]) -> None:
        """DeclinedError unless they are the signed weights; else the server could give each member others."""
        if weights_digest(weights) != self._participant.head.weights:
            raise DeclinedError(
                "the round's weights are not those that the members of its secure sum have signed."
            )

    def train(self, paid: Paid[AcceptedRound]) -> Mapping[str, Any] | None:
        """The masked sum of the step's clipped gradients and its share of noise.

        It is counted only when it can be sent: a step that fails here is not the server's fault.
        """
        share = super().train(paid)
        if share is None:
            return None
        self._lost.paid()
        masked = self._participant.mask(flat(share))
        return {MASKED: np.frombuffer(masked.vector, "<u8").astype(np.uint64)}
