"""A warm process that trains one client after the other and adds their updates up."""

import resource
import time
import traceback
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from fl_dp.config import AUTO
from fl_dp.engine.bookkeeping import Axes
from fl_dp.engine.memory import peak_bytes
from fl_dp.engine.noise import keyed_generator
from fl_dp.engine.plan import Planner
from fl_dp.engine.probe import probe
from fl_dp.federation.arrays import NDArray
from fl_dp.federation.messages import refusal_of
from fl_dp.models.registry import build_model
from fl_dp.records import RoundPlan
from fl_dp.simulation.keys import client_key
from fl_dp.simulation.shared_data import Parts, SharedData
from fl_dp.simulation.tasks import ActorSettings, Done, Measured, PortionDone, Round, Task
from fl_dp.training import PrivateTrainer

_CONTEXT_BYTES = 600 * 2**20  # of CUDA itself, in each process; the allocator does not count it
NOT_FINITE = "its update holds values that are not finite"


class TrainingActor:
    """Trains what it is given, on its own thread, model and device, and never two clients at once.

    Between clients nothing is kept but the sum of their updates: the model is set to the global weights,
    optimizer and generators are new.
    """

    def __init__(self, shared: SharedData, settings: ActorSettings) -> None:
        torch.set_num_threads(settings.threads)
        self._parts, self._settings = Parts(shared), settings
        self._device = torch.device(settings.device)
        self._at_once = 1 if settings.physical_batch_size == AUTO else int(settings.physical_batch_size)
        self._model: nn.Module | None = None
        self._model_name = ""
        self._axes: Axes | None = None
        self._round_key = ""
        self._start: dict[str, Tensor] = {}
        self._planner = Planner()
        self._sum: dict[str, Tensor] = {}

    def ready(self) -> None:
        """Return when the process is there."""

    def measure(self, plan: RoundPlan, part: int) -> Measured:
        """Choose the engine's kernels and the physical batch, and see what memory a step needs.

        From shapes alone, with examples of random numbers.
        """
        data = self._parts[part]
        self._use_model(plan.model, part)
        trainer = self._trainer(plan, Planner())
        if self._settings.physical_batch_size == AUTO:
            self._at_once = trainer.largest_physical_batch(
                data.input_shape, self._settings.memory_mib * 2**20
            )
        size = min(self._at_once, 2 * plan.expected_batch_size)
        trainer.rehearse(data.input_shape, size)
        needed = peak_bytes(lambda: trainer.rehearse(data.input_shape, size), self._device)
        held, total = _gpu_bytes(self._device)
        return Measured(trainer.kernels, self._at_once, needed, _process_bytes(), held, total)

    def train(self, shared_round: Round, tasks: Sequence[Task], at_once: int) -> PortionDone:
        """Train the tasks, one after the other. at_once: most examples in memory at a time."""
        self._at_once = at_once
        self._enter(shared_round, tasks[0].part)
        done = [self._try(task) for task in tasks]
        return PortionDone(done, self._at_once)

    def take_sum(self) -> dict[str, NDArray]:
        """The weighted sum of all updates since the last call, float64; empty when there was none."""
        taken = {name: total.cpu().numpy() for name, total in self._sum.items()}
        self._sum = {}
        return taken

    def _enter(self, shared_round: Round, part: int) -> None:
        if shared_round.key == self._round_key:
            return
        self._use_model(shared_round.model, part)
        weights = shared_round.weights.items()
        self._start = {name: torch.tensor(array, device=self._device) for name, array in weights}
        self._planner = Planner(fixed=shared_round.kernels)
        self._round_key = shared_round.key

    def _use_model(self, name: str, part: int) -> None:
        if name == self._model_name:
            return
        data = self._parts[part]
        model = build_model(name, data.input_shape, data.num_classes, seed=0).to(self._device)
        inputs = data.batch(torch.zeros(0, dtype=torch.int64))[0].to(self._device)
        self._model, self._axes, self._model_name = model, probe(model, inputs), name

    def _try(self, task: Task) -> Done:
        """Train one client. What it raises is its own failure, and not the others'."""
        started = time.perf_counter()
        try:
            arrays = self._train(task)
            problem, log = "" if arrays is not None else NOT_FINITE, ""
        except Exception as error:
            arrays, problem, log = None, refusal_of(error).reason, traceback.format_exc()
        seconds = time.perf_counter() - started
        if task.weight is not None and arrays is not None:
            self._add(arrays, task.weight)
            arrays = None
        update = None if arrays is None else {name: a.cpu().numpy().copy() for name, a in arrays.items()}
        return Done(task.message, seconds, problem, update, log)

    def _train(self, task: Task) -> dict[str, Tensor] | None:
        """The trainable parameters after the task's steps, still the model's own; None if not finite."""
        assert self._model is not None
        self._load()
        trainer = self._trainer(task.plan, self._planner, task)
        data = self._parts[task.part]
        for _ in range(task.steps):
            trainer.step(data, task.sample_rate, self._at_once)
        self._at_once = min(self._at_once, trainer.fits)
        update = {name: p.detach() for name, p in self._model.named_parameters() if p.requires_grad}
        return update if all(map(_is_finite, update.values())) else None

    def _load(self) -> None:
        """The global weights, parameters and buffers, as if the model were new."""
        assert self._model is not None
        with torch.no_grad():
            for name, tensor in self._model.state_dict().items():
                if name in self._start:  # a tied parameter is there under its first name
                    tensor.copy_(self._start[name])

    def _trainer(self, plan: RoundPlan, planner: Planner, task: Task | None = None) -> PrivateTrainer:
        assert self._model is not None
        assert self._axes is not None
        noise = draws = None
        if task is not None:
            noise = keyed_generator(self._key(task, "noise"), self._device)
            draws = keyed_generator(self._key(task, "draws"))
        return PrivateTrainer(
            self._model.train(),
            self._axes,
            plan,
            device=self._device,
            planner=planner,
            noise=noise,
            draws=draws,
        )

    def _key(self, task: Task, purpose: str) -> bytes:
        return client_key(self._settings.secret, task.plan.run, task.plan.server_round, task.client, purpose)

    def _add(self, update: Mapping[str, Tensor], weight: float) -> None:
        """In float64: the sum of any number of float32 updates is exact to far below their own rounding."""
        for name, array in update.items():
            if name in self._sum:
                self._sum[name].add_(array, alpha=weight)
            else:
                self._sum[name] = array.to(torch.float64) * weight


def _is_finite(tensor: Tensor) -> bool:
    """By the largest magnitude, which is NaN if one is: one pass, and no mask of the tensor's size."""
    return tensor.numel() == 0 or bool(torch.isfinite(torch.linalg.vector_norm(tensor, ord=float("inf"))))


def _gpu_bytes(device: torch.device) -> tuple[int, int]:
    """What this process holds of its GPU at most, and what that has; (0, 0) without one."""
    if device.type != "cuda":
        return 0, 0
    total = torch.cuda.get_device_properties(device).total_memory
    return _CONTEXT_BYTES + torch.cuda.max_memory_reserved(device), total


def _process_bytes() -> int:
    """Most memory that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
