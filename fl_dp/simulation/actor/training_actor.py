"""A warm process that trains one client after the other and adds up their updates."""

import logging
import sys
import time
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from fl_dp.config.flat import AUTO
from fl_dp.engine.backward import Axes
from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.engine.kernel_choice.memory import peak_bytes
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.federation.client.payment import attempt
from fl_dp.records import RoundPlan
from fl_dp.simulation.actor.process_memory import keep_freed_memory, own_bytes, peak_growth
from fl_dp.simulation.actor.shared_data import SharedData, SharedParts
from fl_dp.simulation.update_sum import add
from fl_dp.simulation.work import ActorSettings, ChunkDone, ClientWork, Done, Measured, Round
from fl_dp.tasks.identity import is_our_code
from fl_dp.tasks.load import in_task_code, new_model, task_of
from fl_dp.tasks.task import Task
from fl_dp.training.examples import axes_of
from fl_dp.training.kept import go_on_from, state_of
from fl_dp.training.recorder import RECORDING_BYTES, Recorder
from fl_dp.training.retreat import retreating
from fl_dp.training.trainer import (
    Trainer,
    as_arrays,
    take_steps,
    trainer_of,
    update_of,
)

logger = logging.getLogger("fl_dp")

_CONTEXT_BYTES = 600 * 2**20  # of CUDA itself, in each process; the allocator does not count it
_STEP_MARGIN = 1.8  # a process may grow by so many times the tensors seen (see engine/kernel_choice)
_LITTLE_BYTES = 2**24  # of a step's tensors; passes of larger ones are too long to be recorded
_ROUND_COPIES = 4  # of the parameters, besides model and step: the global ones, noise, a sum in float64


class TrainingActor:
    """Trains work items with its own model, thread and device, never two clients at once.

    Between clients it keeps only the sum of a chunk's updates: the model is reset to the global weights, and
    optimizer and generators are new. Between chunks it keeps nothing of the clients.
    """

    def __init__(self, shared: SharedData, settings: ActorSettings, task: Task | None = None) -> None:
        """task: replaces the one that the settings name, for audits."""
        torch.set_num_threads(settings.threads)
        if settings.given is not None:
            settings.given.take()
        keep_freed_memory()
        self._parts, self._settings = SharedParts(shared), settings
        self._task = task or task_of(settings.task)
        self._task.form = self._parts[0].form
        self._device = torch.device(settings.device)
        self._recorder: Recorder | None = None
        self._at_once = self._fits = sys.maxsize
        self._model: nn.Module | None = None
        self._axes: Axes | None = None
        self._number = 0
        self._round: Round | None = None
        self._round_key = ""  # of the round whose weights are loaded
        self._start: dict[str, Tensor] = {}  # the received arrays, never changed
        self._reset: list[tuple[Tensor, Tensor]] = []  # the model's arrays, and what they start from
        self._chooser = KernelChooser(ordered=True)
        self._sum: dict[str, Tensor] = {}  # of this chunk's updates
        self._kept = b""  # the state after the client that was trained last

    def use(self, shared: SharedData) -> None:
        """Train clients of these data from now on; they have the form of those before."""
        self._parts = SharedParts(shared)

    def ready(self) -> None:
        """Return once the process has its model; only later time counts as a client's."""
        self._have_model()

    def measure(self, plan: RoundPlan) -> Measured:
        """Choose the engine's kernels and the physical batch, and measure the memory of a step.

        Uses shapes alone, with examples of random numbers. ConfigError if not one example fits the memory.
        """
        setting = self._settings.physical_batch_size
        model = self._have_model()
        first = self._trainer(plan, KernelChooser(ordered=True))
        first.check_losses()
        batch = plan.expected_batch_size if setting == AUTO else min(plan.expected_batch_size, int(setting))
        batch = _rehearsed(first, batch)
        step = peak_bytes(lambda: first.rehearse(batch), self._device)
        trainer = self._trainer(plan, KernelChooser(fixed=first.kernels, ordered=True))
        wanted, memory = trainer.most_at_once, self._settings.memory_mib * 2**20
        at_most = (
            trainer.largest_physical_batch(memory, wanted) if setting == AUTO else min(int(setting), wanted)
        )
        rows = trainer.choose_rows(at_most)
        size, needed = self._rehearsed(trainer, rows)
        first.fit_kernels(memory, size)
        if first.kernels != trainer.kernels:
            trainer = self._trainer(plan, KernelChooser(fixed=first.kernels, ordered=True))
            size, needed = self._rehearsed(trainer, size)
        trainer.check_rows(size)
        held, total = _gpu_bytes(self._device)
        return Measured(
            kernels=first.kernels,
            at_once=size,
            step_bytes=needed + _ROUND_COPIES * sum(one.nbytes for one in model.parameters()),
            process_bytes=own_bytes() + (RECORDING_BYTES if self._recorder and step <= _LITTLE_BYTES else 0),
            gpu_bytes=held,
            gpu_total=total,
            most=at_most if size == rows else size,
        )

    def train(
        self, number: int, items: Sequence[ClientWork], at_once: int, shared_round: Round | None = None
    ) -> ChunkDone:
        """Train the items, one after the other. at_once: rows of each pass.

        number: of the round. shared_round: needed only with the round's first chunk; unpacking takes time.
        RuntimeError if this process does not know round `number`.
        """
        if shared_round is not None:
            self._number, self._round = number, shared_round
        if number != self._number:
            raise RuntimeError(f"items of round {number} for a process in round {self._number}")
        self._at_once = min(at_once, self._fits)
        done = [self._try(item) for item in items]
        total, self._sum, self._kept = self._sum, {}, b""
        return ChunkDone(done, self._at_once, {name: one.cpu().numpy() for name, one in total.items()})

    def _prepare(self) -> None:
        """Build the model, if missing, and load this round's weights."""
        assert self._round is not None
        if self._round.key == self._round_key:
            return
        state = self._have_model().state_dict()  # a tied parameter is in the weights under its first name
        weights = self._round.weights.items()
        self._start = {name: torch.tensor(array, device=self._device) for name, array in weights}
        self._reset = [(state[name], array) for name, array in self._start.items() if name in state]
        self._chooser = KernelChooser(fixed=self._round.kernels, ordered=True)
        self._round_key = self._round.key

    def _have_model(self) -> nn.Module:
        """The task's model, built once; ModelError or TaskError if it cannot be built or protected."""
        if self._model is None:
            model = new_model(self._task).to(self._device)
            with in_task_code(type(self._task), "a check of its model"):
                self._axes = axes_of(model, self._task.objective, self._device)
            self._model = model
            if self._device.type == "cpu" and is_our_code(self._task, model):
                self._recorder = Recorder()
        return self._model

    def _try(self, item: ClientWork) -> Done:
        """Train one client. An exception is this client's failure only."""
        started = time.perf_counter()
        # a GPU lost to this process is lost for the next clients, too: they need another process
        trained = attempt(lambda: self._train(item), fatal=(torch.AcceleratorError,))
        seconds = time.perf_counter() - started
        alone = None
        if trained.problem:
            self._kept = b""
        if not trained.problem and item.weight is None:
            alone = as_arrays(trained.arrays)
        elif not trained.problem and item.weight is not None:
            # a failure here fails the call, and its sum: no part of an update stays in one
            add(self._sum, trained.arrays, item.weight)
        return Done(item.message, seconds, trained.problem, alone, trained.log, self._kept)

    def _train(self, item: ClientWork) -> Mapping[str, Tensor] | None:
        """Take the item's steps; its update, in the model's own memory, or None if it is not finite."""
        self._prepare()
        self._load()
        trainer = self._trainer(item.plan, self._chooser, item)
        take_steps(trainer, self._parts[item.part], item.steps, item.sample_rate, self._at_once)
        self._kept = state_of(trainer)
        self._fits = min(self._fits, trainer.fits)
        self._at_once = min(self._at_once, self._fits)
        return update_of(trainer)

    def _load(self) -> None:
        """Reset the model to the global weights, parameters and buffers, as if it were new."""
        with torch.no_grad():
            for tensor, start in self._reset:
                tensor.copy_(start)

    def _trainer(self, plan: RoundPlan, chooser: KernelChooser, item: ClientWork | None = None) -> Trainer:
        """item: whose randomness and kept state are used; None: the system's randomness, and no state."""
        assert self._model is not None
        randomness = Randomness(item.key) if item else None
        trainer = trainer_of(
            self._model,
            plan,
            self._task.objective,
            self._device,
            self._axes,
            chooser=chooser,
            randomness=randomness,
            recorder=self._recorder if item else None,
        )
        if item:
            go_on_from(trainer, self._start, item.state)
        return trainer

    def _rehearsed(self, trainer: Trainer, size: int) -> tuple[int, int]:
        """The size of a batch that fits, at most `size`, and its step's peak memory.

        Measured by the growth of the process at its first step or, if that is unknown, by the tensors seen.
        """
        found: list[int] = []

        def rehearse() -> None:
            found.append(_rehearsed(trainer, size))

        grown = peak_growth(rehearse) if self._device.type == "cpu" else None
        if grown is not None:
            return found[0], grown
        rehearse()
        step = peak_bytes(lambda: trainer.rehearse(found[0]), self._device)
        return found[0], int(_STEP_MARGIN * step)


def _gpu_bytes(device: torch.device) -> tuple[int, int]:
    """The most GPU memory that this process has held, and the GPU's total; (0, 0) without one."""
    if device.type != "cuda":
        return 0, 0
    total = torch.cuda.get_device_properties(device).total_memory
    return _CONTEXT_BYTES + torch.cuda.max_memory_reserved(device), total


def _rehearsed(trainer: Trainer, size: int) -> int:
    """Rehearse a batch; returns its size: `size`, halved as often as memory ran out."""

    def rehearse(rows: int) -> int:
        trainer.rehearse(rows)
        return rows

    return retreating(rehearse, size)
