"""Reports everything about a task that training will refuse, before a site joins.

A check runs only if the findings before it allow it. The model is checked on random numbers. Data are read,
but only their form and the classes that occur are reported.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from fl_dp.data.persons import by_unit
from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.probe import probe
from fl_dp.errors import DataError, FlDpError, ModelError
from fl_dp.form import Form
from fl_dp.models.group_norm import replace_batch_norms
from fl_dp.tasks.load import new_model
from fl_dp.tasks.metric import check_metrics
from fl_dp.tasks.records import lacks_test_data, records_of
from fl_dp.tasks.task import Task
from fl_dp.training.examples import check_own_losses
from fl_dp.training.objective import Objective

_EXAMPLES = 4


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem that prevents training. where: a part of the task; what: the problem, and what to do."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass
class Validation:
    """findings: empty if the task can be trained. notes: other facts worth knowing. model: the one that was
    checked; None if there is none.
    """

    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    model: nn.Module | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def __str__(self) -> str:
        lines = [f"found: {finding}" for finding in self.findings]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join([*lines, "it can be trained" if self.ok else f"{len(self.findings)} to fix"])

    @contextmanager
    def finding(self, where: str) -> Iterator[None]:
        """Within the block, an error that would prevent training becomes a finding."""
        try:
            yield
        except FlDpError as error:
            self._found(where, str(error))

    def _found(self, where: str, what: str) -> None:
        """One finding per problem, with all places where it occurred."""
        for i, one in enumerate(self.findings):
            if one.what == what:
                self.findings[i] = Finding(f"{one.where}, {where}", what)
                return
        self.findings.append(Finding(where, what))


def validate_task(task: Task, *, metrics: tuple[str, ...] = (), test: bool = True) -> Validation:
    """Check data, loss, model, losses and metrics of the task. metrics: replace the task's.

    test: as in `fl_dp.validate`.
    """
    result = Validation()
    form = _check_data(result, task)
    test_records = _check_test_data(result, task, form) if test else None
    if form is not None:
        task.form = form  # reading the test data has set theirs
    if task.known_form is not None:
        with result.finding("loss"):
            task.check_loss()
        if test:
            with result.finding("metrics"):
                check_metrics(task, metrics, test_records)
    if task.known_form is None and result.findings and type(task).model is Task.model:
        result.notes.append("the model was not checked, as it takes its shape from the data")
        return result
    with result.finding("model"):
        result.model = new_model(task)
    if result.model is not None:
        check_model(result, task, result.model)
    return result


def check_model(result: Validation, task: Task, model: nn.Module) -> None:
    """Report batch norms by name, then check the model with batch norms replaced."""
    norms = [name for name, part in model.named_modules() if isinstance(part, _BatchNorm)]
    result.findings += [
        Finding(
            f"model, layer {name or 'itself'}",
            "a batch norm mixes the examples of a batch; replace it by a group norm where the model is made: "
            "fl_dp.models.group_norm.replace_batch_norms(model)",
        )
        for name in norms
    ]
    if not any(parameter.requires_grad for parameter in model.parameters()):
        result.findings.append(Finding("model", "no parameter is trainable; set requires_grad on some."))
        return
    if task.known_form is None:
        result.notes.append("the model was not tried, as the form of the data is not known")
        return
    tried = model
    if norms:
        tried = copy.deepcopy(model)
        replace_batch_norms(tried)
    _try(result, task, tried.train())


def _check_data(result: Validation, task: Task) -> Form | None:
    """The form of the training data; None if there are none."""
    data: TensorData | None = None
    with result.finding("train_data()"):
        data = records_of(task, "train")
        if data is None:
            result.findings.append(
                Finding("train_data()", "it returns nothing; a site trains on its records.")
            )
    if data is None:
        return None
    result.notes.append(f"{len(data)} records, {data.form}")
    result.notes += _missing(data)
    with result.finding("unit"):
        examples = by_unit(data, task.settings)
        if examples is not data:
            result.notes.append(f"{len(examples)} persons, the unit of privacy")
    return data.form


def _check_test_data(result: Validation, task: Task, form: Form | None) -> TensorData | None:
    """The test data, which must have `form`, that of the training data."""
    test: TensorData | None = None
    with result.finding("test_data()"):
        test = records_of(task, "test")
        if test is None:
            result.notes.append('no test data: set evaluate = "off"')
        elif form is not None and test.form != form:
            if lacks_test_data(task):
                raise DataError(
                    f"the task has no test_data() of its own, and data = {task.settings.data!r} gives "
                    f"{test.form}, but train_data() gives {form}. Write test_data(), or set "
                    'evaluate = "off".'
                )
            raise DataError(f"it gives {test.form}, but train_data() gives {form}; give both the same form.")
    return test


def _missing(data: TensorData) -> list[str]:
    """A note about classes without a record: training works, but the model learns nothing about them."""
    if data.form.targets != "class":
        return []
    there = set(data.y.tolist())
    names = [name for label, name in enumerate(data.classes) if label not in there]
    return [f"no record here is of class {', '.join(names)}"] if names else []


def _try(result: Validation, task: Task, model: nn.Module) -> None:
    """Check outputs, losses, gradients and independence on random numbers."""
    inputs, _ = _blank(task)
    before = len(result.findings)
    if type(task).losses is Task.losses:
        with result.finding("model"):
            _check_outputs(task, model, inputs)
    with result.finding("losses()"):
        check_losses(task, model)
    if len(result.findings) == before:
        with result.finding("losses()"), _said("losses()", inputs):
            check_own_losses(lambda x, y: task.losses(model, (x, y)), _objective(task))
    with result.finding("model"), _said("the model", inputs):
        probe(model, inputs[:0])


def _check_outputs(task: Task, model: nn.Module, inputs: Tensor) -> None:
    with torch.no_grad(), _said("the model", inputs):
        shape = tuple(task.outputs(model, inputs).shape)
    wanted = (_EXAMPLES, *task.form.output_shape)
    if shape != wanted:
        raise ModelError(
            f"outputs of shape {shape} for {_EXAMPLES} examples, expected {wanted}: {task.form}."
        )


def check_losses(task: Task, model: nn.Module) -> None:
    """Raise ModelError unless the task gives one loss per example, on random numbers of the data's form."""
    inputs, targets = _blank(task)
    with _said("losses()", inputs):
        losses = task.losses(model, (inputs, targets))
    if not isinstance(losses, Tensor) or losses.shape != (_EXAMPLES,):
        there = f"shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else type(losses).__name__
        raise ModelError(
            f"{there} for {_EXAMPLES} examples, expected ({_EXAMPLES},): each example's own loss, not a "
            'mean over the batch (write reduction="none").'
        )
    if not losses.requires_grad:
        raise ModelError("the losses do not depend on a trainable parameter; do not use detach or no_grad.")


@contextmanager
def _said(what: str, inputs: Tensor) -> Iterator[None]:
    """Within the block, errors of the task's code or of PyTorch also name the shape of the random inputs."""
    try:
        yield
    except FlDpError:
        raise
    except Exception as error:  # the user's own code may raise anything
        words = " ".join(str(error).split())
        raise ModelError(
            f"{what} raised {type(error).__name__} on inputs of shape {tuple(inputs.shape)}, {inputs.dtype}: "
            f"{words}"
        ) from error


def _blank(task: Task) -> tuple[Tensor, Tensor]:
    with torch.random.fork_rng(devices=[]):
        inputs, targets = _objective(task).blank(_EXAMPLES)
        return inputs, targets


def _objective(task: Task) -> Objective:
    """The objective without the checks of its settings, which are separate findings."""
    return task.unchecked_objective.of_one_record()
