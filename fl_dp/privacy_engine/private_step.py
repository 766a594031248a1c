"""What an engine does at each step: losses in, noisy gradients out, one step counted and paid for."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from fl_dp.engine.backward import Axes, keep_gradients
from fl_dp.engine.bounds import Bounds, Group
from fl_dp.engine.clip_functions import ClipFunction
from fl_dp.engine.clipping import ClippedSum, check_losses
from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.engine.precision import check_overrides
from fl_dp.engine.tracing.known_layers import refuse_batch_norms
from fl_dp.errors import ConfigError
from fl_dp.privacy_engine.attachment import Attachment, UnprotectedSteps, check_step_arguments
from fl_dp.privacy_engine.checks import CheckedLosses, check_one_process, check_unscaled
from fl_dp.privacy_engine.model_check import ModelCheck
from fl_dp.privacy_engine.payments import Payments
from fl_dp.privacy_engine.ranks import Ranks
from fl_dp.privacy_engine.settings import EngineNoise, Fixed, check_optimizer
from fl_dp.privacy_engine.spent import (
    ACCOUNT,
    BUFFERS,
    EVALUATION,
    LOSSES,
    NOISE_SOURCE,
    OPTIMIZER,
    RANKS,
    SHOWN,
)
from fl_dp.privacy_engine.stats import TrainingStats
from fl_dp.privacy_engine.steps import Steps
from fl_dp.privacy_engine.turn_loop import TurnLoop
from fl_dp.training.step import DpSgd, Noisy, added_up, clipped_pass, noised, nothing, set_gradients


class PrivateStep(Fixed):
    """The step of a `PrivacyEngine`, which assigns all of these attributes when it is made."""

    module: nn.Module
    parameters: Mapping[str, nn.Parameter]
    batch_size: int
    sample_rate: float
    noise_multiplier: float
    max_grad_norm: Bounds
    clipping: ClipFunction
    target_delta: float
    accountant: str
    chooser: KernelChooser
    record_snr: bool
    _rule: DpSgd
    _groups: tuple[Group, ...]
    _generator: EngineNoise
    _losses: CheckedLosses | None
    _check: ModelCheck
    _steps: Steps
    _payments: Payments | None
    _ranks: Ranks | None
    _unprotected: UnprotectedSteps
    _attached: Attachment | None
    _turns: TurnLoop | None
    _pending: ClippedSum | None
    _stats: TrainingStats | None
    _has_state: bool
    _locked: bool
    _show_loss: bool

    def _before_step(
        self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """PyTorch calls this with the arguments of `step`, and passes the result to the optimizer's step."""
        if self._turns is None:
            check_step_arguments(args, kwargs)
        else:
            self._pending = self._turns.before_step(args, kwargs)
        check_optimizer(optimizer, self.parameters)
        if kwargs.get("loss") is not None:
            self._virtual_step(loss=kwargs["loss"])
        set_gradients(self._rule, self._noisy(), self._check.padding_rows())
        if self._turns is not None:
            self._turns.step_taken()
        return args[:1], {}

    def _virtual_step(self, *, loss: Tensor) -> None:
        """Clip one physical batch and add it to the logical batch that the next step ends."""
        if self._turns is not None:
            self._turns.refuse_losses()
        self._check_may_step()
        self._steps.check_drawn()
        if self._losses is not None:
            self._losses.check_made_here(loss)
        clipped = self._clipped(loss)
        if self._ranks is not None:
            self._ranks.gather(clipped)
            return
        self._pending = added_up(self._rule, filter(None, (self._pending, clipped)))

    def _clipped(self, losses: Tensor) -> ClippedSum:
        check_losses(losses)  # before the model is checked
        check_overrides(losses.device)  # the model may have moved since `attach`

        def clip(axes: Axes) -> ClippedSum:
            check_unscaled(losses)
            if not len(losses):
                return nothing(self._rule)
            kept = keep_gradients(losses, self.parameters, axes, self.chooser)
            return clipped_pass(self._rule, losses, kept)

        return self._check.clipped(clip)

    def _check_may_step(self) -> None:
        """ConfigError if the next step may not begin, or not continue."""
        if self._locked:
            raise ConfigError("The engine is locked; call unlock() before the next step.")
        self._check_processes()
        if self._attached is not None:
            self._attached.check_unassigned()

    def _check_processes(self) -> None:
        if self._ranks is None:
            check_one_process()
        else:
            self._ranks.check()

    def _begin_loop(self, dataset: object) -> None:
        """Drop what was gathered of a draw: the draw is handed out again, whole."""
        self._drop_pending()
        if self._payments is not None:
            refuse_batch_norms(self.module)  # the first pass would find them, but after it was paid for
            self._payments.see(dataset)
        if self._ranks is not None and dataset is not None:
            self._ranks.see(dataset)

    def _drop_pending(self) -> None:
        self._pending = None
        if self._turns is not None:
            self._turns.drop()
        if self._ranks is not None:
            self._ranks.drop()

    def _note_buffers(self) -> None:
        """Name buffers that were written between the passes, also after the last one."""
        self._check.watch.look()
        if self._check.watch.are_buffers_moved:
            self._steps.note(BUFFERS)

    def _noisy(self) -> Noisy:
        """The noisy sum of everything pending, on all ranks. The step is counted before noise is drawn."""
        if self._ranks is not None:
            self._ranks.begin_step(self._steps.taken, self._check_may_step)
            self._steps.take(self._ranks.examples, self._unseen())
            return self._ranks.noisy()
        self._check_may_step()
        clipped, has_noise = self._pending or nothing(self._rule), self.noise_multiplier > 0
        drawn = self._steps.take(len(clipped.norms), self._unseen())
        self._pending = None
        source = self._payments.take(drawn) if self._payments else self._generator
        noisy = noised(self._rule, clipped, source) if has_noise else clipped.grads
        self._stats = TrainingStats.of_step(
            clipped, noisy, self._groups, self.noise_multiplier, record_snr=self.record_snr
        )
        return noisy

    def _unseen(self) -> set[str]:
        """What the engine cannot check about a step taken now, besides its draw; names of `spent.py`."""
        found = {
            LOSSES: self._losses is None,
            NOISE_SOURCE: isinstance(self._generator, torch.Generator),
            EVALUATION: self._check.watch.in_evaluation,
            BUFFERS: self._check.watch.are_buffers_moved,
            OPTIMIZER: self._has_state,
            SHOWN: self._show_loss,
            RANKS: self._ranks is not None and not self._ranks.are_records_seen,
            ACCOUNT: self._payments is not None and not self._payments.are_records_seen,
        }
        return {name for name, holds in found.items() if holds}
