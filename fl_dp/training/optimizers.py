"""Turns a step's gradient into a step of the weights: by our own SGD, or by an optimizer of torch.optim.

An optimizer only sees gradients that are already noised, so no epsilon depends on it. A server asks for one
by name. Names are looked up in a list from torch.optim itself, and settings are numbers of bounded size;
nothing else can be named.
"""

import inspect
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from fl_dp.choices import one_of
from fl_dp.config.inline import inline_table
from fl_dp.errors import ConfigError
from fl_dp.records import KEEP, RoundPlan

SGD = "sgd"
_MOST = 1e6  # absolute value of a number among the settings
_MOST_RATE = 1e30  # with more, optimizers overflow in the middle of a round; weights end at 1e6 anyway
_CLOSURE = "it computes the loss several times a step, and a step is paid for once"
_SPARSE = "it is made for sparse gradients, and noise is added to every weight"
# Settings that change how an optimizer computes, not what; the learning rate has a setting of its own.
_NOT_TO_SET = frozenset(
    {"params", "lr", "foreach", "maximize", "capturable", "differentiable", "fused", "adjust_lr_fn"}
)


class MomentumSGD:
    """v = momentum * v + gradient, parameter = parameter - learning_rate * v, as `torch.optim.SGD`.

    Written out because an optimizer of torch.optim imports torch._dynamo. That takes 2 s and 48 MiB in each
    process that trains; a small client's round takes a fraction of that.
    """

    def __init__(self, parameters: Sequence[Tensor], *, learning_rate: float, momentum: float) -> None:
        self._parameters, self._learning_rate, self._momentum = parameters, learning_rate, momentum
        self._velocity: list[Tensor] = []

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor | None]) -> None:
        """One step; gradients in the order of the parameters, None for one that never has a gradient."""
        known = [(p, g) for p, g in zip(self._parameters, gradients, strict=True) if g is not None]
        if not self._velocity:
            self._velocity = [gradient.clone() for _, gradient in known] if self._momentum else []
        elif self._momentum:
            for velocity, (_, gradient) in zip(self._velocity, known, strict=True):
                velocity.mul_(self._momentum).add_(gradient)
        moves = self._velocity or [gradient for _, gradient in known]
        for (parameter, _), move in zip(known, moves, strict=True):
            rate = min(self._learning_rate, torch.finfo(parameter.dtype).max)
            parameter.add_(move, alpha=-rate)


class TorchDescent:
    """An optimizer of torch.optim. divisor: turns the gradients, which are sums, into means.

    parameters: changed in place; no gradient stays on them.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        name: str,
        settings: Mapping[str, Any],
        *,
        learning_rate: float,
        divisor: float,
    ) -> None:
        self._own = [parameter.detach() for parameter in parameters]  # the same memory
        learning_rate = min(learning_rate, _MOST_RATE)
        self._optimizer, self._divisor = _made(name, settings, self._own, learning_rate), divisor

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor | None]) -> None:
        """One step along sums over a batch; otherwise as in `MomentumSGD`."""
        for parameter, gradient in zip(self._own, gradients, strict=True):
            parameter.grad = None if gradient is None else (gradient / self._divisor).to(parameter.dtype)
        self._optimizer.step()
        self._optimizer.zero_grad()

    def state(self) -> dict[int, dict[str, Any]]:
        """The state of each parameter, by its number: tensors and numbers."""
        state: dict[int, dict[str, Any]] = self._optimizer.state_dict()["state"]
        return state

    def load(self, state: Mapping[int, Mapping[str, Any]]) -> None:
        """Continue from what `state` gave, for as many parameters of the same shapes."""
        groups = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({"state": dict(state), "param_groups": groups})


Descent = MomentumSGD | TorchDescent


def descent_of(plan: RoundPlan, parameters: Sequence[Tensor], *, divisor: float) -> Descent:
    """The optimizer that `plan` asks for; ConfigError if it is impossible with these parameters.

    divisor: turns the gradients that it will be given, which are sums, into means.
    """
    if plan.optimizer == SGD and not plan.optimizer_settings and plan.optimizer_state != KEEP:
        # Dividing the rate once replaces dividing every gradient.
        return MomentumSGD(parameters, learning_rate=plan.learning_rate / divisor, momentum=plan.momentum)
    settings = settings_of(plan.optimizer, plan.optimizer_settings, plan.momentum)
    return TorchDescent(
        parameters, plan.optimizer, settings, learning_rate=plan.learning_rate, divisor=divisor
    )


def settings_of(name: str, text: str, momentum: float = 0.0) -> dict[str, Any]:
    """The optimizer's settings in `text`, and `momentum`; ConfigError for what it does not have.

    momentum: only for "sgd". Every number must be finite and at most 10^6. A trial on one blank weight asks
    torch.optim whether it accepts the values.
    """
    settings = inline_table("optimizer-settings", text)
    known = _settable(name)
    for key, value in settings.items():
        if key not in known:
            has = ", ".join(sorted(known)) or "none"
            raise ConfigError(f"optimizer-settings: {name} has no {key!r} to set; it has {has}.")
        if not _fits(value, known[key]):
            raise ConfigError(f"optimizer-settings: {key} = {value!r}: expected {_wanted(known[key])}.")
    if momentum and name != SGD:
        raise ConfigError(
            f"momentum = {momentum:g}: only sgd takes it; set those of {name} with optimizer-settings."
        )
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}
    values |= {"momentum": momentum} if name == SGD else {}
    _made(name, values, [torch.zeros(1, 1)], 0.1)
    return values


def check_optimizer(name: str, text: str, momentum: float, parameters: Sequence[Tensor]) -> None:
    """ConfigError if the optimizer or its settings do not exist, or do not suit these parameters."""
    settings = settings_of(name, text, momentum)
    _made(name, settings, [one.detach() for one in parameters if one.requires_grad], 0.1)


@lru_cache(maxsize=1)
def optimizers() -> Mapping[str, type[Optimizer]]:
    """The available optimizers, by name: all of torch.optim that take one dense gradient per step."""
    return {name: kind for name, kind in _all().items() if not _why_not(kind)}


def optimizer_class(name: str) -> type[Optimizer]:
    """The class of that name; ConfigError, with the reason, if there is none or it cannot be used."""
    if name in optimizers():
        return optimizers()[name]
    other = _all().get(name)
    if other is not None:
        raise ConfigError(f"optimizer = {name!r}: cannot be used: {_why_not(other)}.")
    raise ConfigError(f"optimizer = {name[:64]!r}: {one_of(name[:64], sorted(optimizers()))}")


def _all() -> dict[str, type[Optimizer]]:
    found = [getattr(torch.optim, name) for name in torch.optim.__all__]
    kinds = [one for one in found if isinstance(one, type) and issubclass(one, Optimizer)]
    return {kind.__name__.lower(): kind for kind in kinds if kind is not Optimizer}


def _why_not(kind: type[Optimizer]) -> str:
    if inspect.signature(kind.step).parameters["closure"].default is inspect.Parameter.empty:
        return _CLOSURE
    return _SPARSE if kind.__name__.startswith("Sparse") else ""


def _settable(name: str) -> dict[str, Any]:
    """The default of each setting, which shows the type of its values."""
    parameters = inspect.signature(optimizer_class(name)).parameters.values()
    hidden = _NOT_TO_SET | ({"momentum"} if name == SGD else set())
    return {one.name: one.default for one in parameters if one.name not in hidden}


def _without_compiler() -> None:
    """Let torch.optim make optimizers without PyTorch's compiler.

    It imports the compiler only to exclude a method from it. That takes 2 s and 48 MiB in a process that
    never compiles, and with Ray it prints pages of leak warnings at exit. If torch renames the attribute,
    this function does nothing.
    """
    method = getattr(Optimizer.add_param_group, "__wrapped__", None)
    if method is not None and not hasattr(method, "__dynamo_disable"):
        method.__dynamo_disable = method


def _made(
    name: str, settings: Mapping[str, Any], parameters: list[Tensor], learning_rate: float
) -> Optimizer:
    kind = optimizer_class(name)
    _without_compiler()
    given: dict[str, Any] = {"lr": learning_rate, **settings}
    if "foreach" in inspect.signature(kind).parameters:
        given["foreach"] = False
    try:
        made: Optimizer = kind(parameters, **given)
    except (ValueError, TypeError) as error:
        words = " ".join(str(error).split())
        raise ConfigError(f"optimizer = {name!r}: torch.optim refuses it: {words}") from error
    return made


def _fits(value: Any, default: Any) -> bool:
    if isinstance(default, bool):
        return isinstance(value, bool)
    if isinstance(default, tuple):
        return isinstance(value, list) and len(value) == len(default) and all(map(_is_number, value))
    return _is_number(value)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and abs(value) <= _MOST


def _wanted(default: Any) -> str:
    if isinstance(default, bool):
        return "true or false"
    if isinstance(default, tuple):
        return f"a list of {len(default)} numbers"
    return f"a number of at most {_MOST:g}"
