"""A task: what is learned. The built-in task is a task like any other; the settings name its parts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from fl_dp.config.task import TaskSettings
from fl_dp.data.source import data_of, schema_of
from fl_dp.errors import ConfigError, TaskError
from fl_dp.form import Form, names_of
from fl_dp.models.build import build_model, build_with
from fl_dp.models.names import is_own_code
from fl_dp.tasks.own_code import own_function
from fl_dp.training.augmentation import Views
from fl_dp.training.losses import check_targets, loss_of
from fl_dp.training.objective import Batch, Objective

if TYPE_CHECKING:  # its import takes pandas along
    from fl_dp.data.tables.schema import Schema

_LOOPS = {"train", "fit", "evaluate"}  # of Flower's clients


class Task:
    """Subclass it in a file of your own and override what is yours; the rest is built in.

    Args:
        settings: Of this site, used by built-in parts; the defaults if not given.

    Attributes:
        classes: Names of the labels, or their number; public, and never counted in the data. Without
            classes, targets are numbers.
        vocabulary: Number of tokens, if inputs are tokens.
        metrics: Names of metrics to report on the test data, or functions of outputs and targets; empty:
            those of the loss.

    Raises:
        ConfigError: A subclass with its own training loop, which would be neither noised nor paid for.

    Example:
        >>> import fl_dp, torch
        >>> from torch import nn
        >>> from torch.nn import functional as F
        >>> class Ours(fl_dp.Task):
        ...     classes = ("no", "yes")
        ...
        ...     def model(self):
        ...         return nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 2))
        ...
        ...     def losses(self, model, batch):
        ...         inputs, targets = batch
        ...         return F.cross_entropy(model(inputs), targets, reduction="none")
        ...
        ...     def train_data(self):
        ...         return torch.randn(50, 12), torch.randint(2, (50,))
        >>> fl_dp.validate(Ours, test=False).ok
        True
    """

    built_in: ClassVar[bool] = True  # its code and its errors are fl_dp's own
    classes: Sequence[str] | int = ()
    vocabulary: int = 0
    metrics: Sequence[Any] = ()

    def __init_subclass__(cls, *, built_in: bool = False) -> None:
        """built_in: only for fl_dp's own classes, else TypeError. ConfigError for a training loop."""
        for name in _LOOPS & vars(cls).keys():
            raise ConfigError(
                f"{cls.__name__}.{name}() would never be called: fl_dp takes the steps, as those of your own "
                "loop would be neither noised nor paid for. Write losses(model, batch), and metrics for "
                "evaluation; rename a helper (docs/migrating.md, Flower)."
            )
        if built_in and not cls.__module__.startswith("fl_dp."):
            raise TypeError(f"{cls.__name__}: only fl_dp's own tasks are built in.")
        cls.built_in = built_in

    def __init__(self, settings: TaskSettings | None = None) -> None:
        self.settings = settings or TaskSettings()
        self.known_form: Form | None = None  # of the data; None before it is known
        self.class_names = names_of(self.classes)  # replaced by those of the data, once known

    @property
    def form(self) -> Form:
        """Form of the data; TaskError before it is known."""
        if self.known_form is None:
            raise TaskError("a built-in model takes its shape from data, but no data were read yet")
        return self.known_form

    @form.setter
    def form(self, form: Form) -> None:
        self.known_form = form

    def model(self) -> nn.Module:
        """A new model, with random weights from torch's global generator, whose seed is already set."""
        name, seed = self.settings.model, self.settings.seed
        if is_own_code(name):
            return build_with(own_function(name), name, self.form, seed)
        return build_model(name, self.form, seed)

    def outputs(self, model: nn.Module, inputs: Tensor) -> Tensor:
        """The model's outputs (n, ...) for inputs (n, ...), for metrics and predictions."""
        outputs: Tensor = model(inputs)
        return outputs

    def losses(self, model: nn.Module, batch: Batch) -> Tensor:
        """(n,) each example's own loss, independent of the rest of the batch."""
        inputs, _ = batch
        return self._built_in_losses(self.outputs(model, inputs), batch)

    def losses_and_outputs(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        """Both, for evaluation; built-in losses come from the outputs, so the model is called once."""
        inputs, _ = batch
        outputs = self.outputs(model, inputs)
        built_in = self._has_built_in_losses
        return self._built_in_losses(outputs, batch) if built_in else self.losses(model, batch), outputs

    @property
    def has_built_in_outputs_and_losses(self) -> bool:
        """Whether both are built in, so that the loss is known by its name."""
        return self._has_built_in_losses and getattr(self.outputs, "__func__", None) is Task.outputs

    @property
    def _has_built_in_losses(self) -> bool:
        """False if the class overrides them, or the task itself does (`self.losses = ...`)."""
        return getattr(self.losses, "__func__", None) is Task.losses

    def _built_in_losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        inputs, targets = batch
        losses = loss_of(self.settings.loss).per_example(outputs, targets)
        weights = self.weights(inputs, targets)
        return losses if weights is None else losses * weights

    def weights(self, inputs: Tensor, targets: Tensor) -> Tensor | None:
        """(n,) weight of each example's loss, from that example alone; None: all are equal.

        Built in: `class-weights`. Gradients are clipped after weighting, whatever the weight.
        """
        known = self.settings.weight_of_class
        return torch.tensor(known, device=targets.device)[targets] if known else None

    def train_data(self) -> Any:
        """The site's records: a `TensorData`, or inputs and targets, as tensors or arrays (n, ...)."""
        return data_of(self.settings, "train")

    def test_data(self) -> Any:
        """The server's test data, in the same form; None if it has none."""
        return data_of(self.settings, "test")

    def public_form(self) -> Form | None:
        """The form of the data from its schema file, without reading a record; None without one."""
        return schema.form if (schema := _schema_of(self)) else None

    def public_classes(self) -> tuple[str, ...]:
        """The names of the classes from the schema file; empty without one."""
        return schema.classes if (schema := _schema_of(self)) else ()

    def meaning(self) -> str:
        """How records become numbers, from the schema file; empty without one. Sites must agree on it."""
        return schema.meaning if (schema := _schema_of(self)) else ""

    @property
    def objective(self) -> Objective:
        """What a trainer minimises; ConfigError if one of its settings does not suit the data's form."""
        self.check_loss()
        self._views.check(self.form)
        return self.unchecked_objective

    @property
    def unchecked_objective(self) -> Objective:
        """The same, without checks of the settings."""
        settings = self.settings
        return Objective(self.losses, self.form, settings.records_per_person, self._views)

    @property
    def _views(self) -> Views:
        return Views(self.settings.views, self.settings.changes)

    def check_loss(self) -> None:
        """Raise ConfigError if the built-in loss does not suit the data's targets or class weights.

        There must be one class weight per class. Passes if `losses` is the user's own.
        """
        given, form = self.settings.weight_of_class, self.form
        if not self._has_built_in_losses:
            if given:
                raise ConfigError("class-weights: this task has its own losses(); weight the examples there.")
            return
        check_targets(self.settings.loss, form)
        if given and (form.targets != "class" or len(given) != form.outputs):
            wanted = f"{form.outputs} numbers" if form.targets == "class" else "none, as there are no classes"
            raise ConfigError(f"class-weights = {self.settings.class_weights!r}: expected {wanted}.")


def _schema_of(task: Task) -> "Schema | None":
    """Of the built-in data; a task that reads its own has none."""
    return schema_of(task.settings) if type(task).train_data is Task.train_data else None
