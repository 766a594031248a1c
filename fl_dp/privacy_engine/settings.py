"""The keywords of `PrivacyEngine`, each checked and turned into what a private step needs, and then fixed."""

import functools
import inspect
import math
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from numbers import Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, ParamSpec, SupportsIndex

import numpy as np
import torch
from torch import nn

from fl_dp.accounting.accountant import DEFAULT_ACCOUNTANT, check_holds_budgets
from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.engine.bounds import Bounds
from fl_dp.errors import ConfigError
from fl_dp.records import MOST_BATCH

# Where the noise comes from: integers on a grid from the system's entropy, or the user's own generator,
# for which the proof of `engine/noise/grid.py` does not hold.
EngineNoise = torch.Generator | Literal["secure"]

P = ParamSpec("P")

# private_CNN's accounting_mode -> an accountant of ours that is at least as careful.
_ACCOUNTING_MODES: dict[str, str] = {"rdp": "rdp", "rdp_cks": "rdp", "glw": "pld"}
# Other keywords of private_CNN, fastDP and Opacus that cannot be honoured, and why (docs/migrating.md).
_REFUSED = {
    "alphas": "the accountant chooses its own orders",
    "eps_error": "the accountant already rounds to the safe side",
    "mode": "'ghost-mixed' is the default; ghost_clipping and mixed choose others",
    "fp16": "run the model under torch.autocast instead",
    "numerical_stability_constant": "clipping divides safely without one",
    "clipping_mode": "kernels are measured and chosen; ghost_clipping and mixed choose others",
    "clipping_style": "max_grad_norm={NAME: BOUND}, or split_bound(C, NAMES), bounds groups",
    "clipping_fn": "clipping='automatic' or 'abadi' chooses the function",
    "origin_params": "every parameter is clipped, and none is needed for a second pass",
    "num_steps": "epochs = num_steps * batch_size / sample_size says the same",
    "loss_reduction": "a step takes each example's own loss, reduction='none'",
    "num_GPUs": "ranks='all' trains with several processes",
    "torch_seed_is_fixed": "no seed decides draws and noise",
    "secure_mode": "noise is always from the system's entropy, in integers",
    "poisson_sampling": "a PoissonSampler draws, and attach(optimizer, sampler=sampler) sees it",
    "grad_sample_mode": "kernels are measured and chosen",
    "optimizer": "engine.attach(optimizer, sampler=sampler) takes it",
    "data_loader": "engine.attach(optimizer, sampler=sampler) sees what a PoissonSampler draws",
    "criterion": "a step takes each example's own loss, reduction='none'",
    "noise_generator": "it is called generator=",
    "physical_batch_size": "attach(optimizer, loader=loader, physical_batch_size=...) takes it",
    "batch_first": "the first dimension is always the example",
    # of get_privacy_spent
    "accounting_mode": "the accountant is fixed when the engine is made",
    "lenient": "an accountant that fails is an error",
    "delta": "it is PrivacyEngine(target_delta=...), fixed when the engine is made",
}
# Methods of other engines, and what does the same here (docs/migrating.md).
_INSTEAD_OF = {
    "get_epsilon": "get_privacy_spent().epsilon, at PrivacyEngine(target_delta=...)",
    **dict.fromkeys(
        ("make_private", "make_private_with_epsilon"),
        "fl_dp.make_private(...), or PrivacyEngine(model, ...) and attach(optimizer, loader=loader)",
    ),
    **dict.fromkeys(
        ("save_checkpoint", "load_checkpoint"), "state_dict() and load_state_dict() of each part"
    ),
    **dict.fromkeys(
        ("is_compatible", "validate", "get_compatible_module"),
        "fl_dp.models.group_norm.replace_batch_norms(model); the rest is refused by name when it is met",
    ),
}


def told_what_is_missing(init: Callable[P, None]) -> Callable[P, None]:
    """`init` that raises ConfigError for a missing argument, because other engines ask for it later."""
    _, first, *others = inspect.signature(init).parameters.values()  # self, the model, keywords
    needed = [one.name for one in others if one.default is one.empty and one.kind is one.KEYWORD_ONLY]

    @functools.wraps(init)
    def checked(*args: P.args, **kwargs: P.kwargs) -> None:
        missing = [] if len(args) > 1 or first.name in kwargs else [first.name]
        missing += [f"{name}=" for name in needed if name not in kwargs]
        if missing:
            raise ConfigError(
                f"PrivacyEngine needs {', '.join(missing)} when it is made; then attach(optimizer). "
                "docs/migrating.md shows it beside the calls of Opacus, private_CNN and fastDP."
            )
        init(*args, **kwargs)

    return checked


def refuse_keywords(other: Mapping[str, Any], of: str = "PrivacyEngine") -> None:
    """Raise TypeError for a keyword that `of` does not have, ConfigError for one that cannot be honoured."""
    for name, value in other.items():
        if name not in _REFUSED:
            raise TypeError(f"{of} got an unexpected keyword argument {name!r}.")
        if value is not False and value is not None:  # fp16=False requests nothing
            raise ConfigError(f"{name}={value!r} cannot be honoured: {_REFUSED[name]}; leave it out.")


def check_sizes(batch_size: int, sample_size: int, check_every: int) -> None:
    """ConfigError for a batch larger than the data set, or larger than the rounding bound allows for."""
    if check_every < 1:
        raise ConfigError(f"Expected check_every={check_every} >= 1.")
    if not 1 <= batch_size <= sample_size:
        raise ConfigError(f"Expected 1 <= batch_size={batch_size} <= sample_size={sample_size}.")
    if batch_size > MOST_BATCH:
        raise ConfigError(f"batch_size={batch_size}: expected at most {MOST_BATCH}, see engine/sum_error.py.")


def chosen_accountant(accountant: str | None, accounting_mode: str | None) -> str:
    """The accountant named by either keyword, or the default. It must be allowed to hold a budget."""
    if accounting_mode is None:
        check_holds_budgets(accountant or DEFAULT_ACCOUNTANT)
        return accountant or DEFAULT_ACCOUNTANT
    if accountant is not None:
        raise ConfigError("Give accountant or accounting_mode, not both.")
    if accounting_mode not in _ACCOUNTING_MODES:
        raise ConfigError(
            f"accounting_mode={accounting_mode!r}: expected one of {', '.join(_ACCOUNTING_MODES)}; "
            "'gdp' can report less than what is spent, and a budget needs one number, not 'all'."
        )
    return _ACCOUNTING_MODES[accounting_mode]


def number(name: str, value: object) -> float:
    """`value` as a float; ConfigError for anything but one number: all steps have the same price."""
    plain = value.item() if isinstance(value, torch.Tensor | np.ndarray) and value.ndim == 0 else value
    if isinstance(plain, Real):
        return float(plain)
    raise ConfigError(
        f"{name}={value!r}: expected one number, which all steps have. For other noise or another bound "
        "later, call detach() and make a new engine, which continues the count; for a bound of each part of "
        "the model, max_grad_norm={NAME: BOUND}."
    )


def chosen_noise(
    noise_multiplier: float | None,
    target_epsilon: float | None,
    epochs: float | None,
    *,
    batch_size: int,
    sample_size: int,
    delta: float,
    accountant: str,
) -> tuple[float, int | None]:
    """The multiplier, and the number of steps that were planned with it; None if nobody said.

    The multiplier is the given one, or the smallest with which `epochs` keep `target_epsilon`. An epoch is
    ceil(sample_size / batch_size) steps, as in an ordinary loop.
    """
    if noise_multiplier is not None:
        if target_epsilon is not None:
            raise ConfigError("Give noise_multiplier, or target_epsilon and epochs, not both.")
        return _checked_noise(noise_multiplier), None
    if target_epsilon is None:
        raise ConfigError("Give noise_multiplier, or target_epsilon and epochs.")
    if epochs is None:
        raise ConfigError("target_epsilon needs epochs, to know how many steps there will be.")
    if not 0 < epochs < math.inf:
        raise ConfigError(f"Expected epochs={epochs} > 0 and finite.")
    steps = math.ceil(epochs * -(-sample_size // batch_size))
    rate = batch_size / sample_size
    return calibrate_noise(rate, steps, target_epsilon, delta, accountant=accountant), steps


def _checked_noise(given: float) -> float:
    noise_multiplier = number("noise_multiplier", given)
    if not 0 <= noise_multiplier < math.inf:
        raise ConfigError(f"Expected noise_multiplier={noise_multiplier} >= 0 and finite.")
    if noise_multiplier == 0:
        warnings.warn("noise_multiplier=0: nothing is protected, epsilon is infinite.", stacklevel=5)
    return noise_multiplier


def chosen_bounds(max_grad_norm: Bounds) -> Bounds:
    """The clipping bound, or those of groups, read-only."""
    if not isinstance(max_grad_norm, Mapping):
        max_grad_norm = number("max_grad_norm", max_grad_norm)
    for bound in max_grad_norm.values() if isinstance(max_grad_norm, Mapping) else [max_grad_norm]:
        if not 0 < bound < math.inf:
            raise ConfigError(f"Expected max_grad_norm={bound} > 0 and finite.")
    return MappingProxyType(dict(max_grad_norm)) if isinstance(max_grad_norm, Mapping) else max_grad_norm


def trained_parameters(
    module: nn.Module, named_params: Iterable[tuple[str, nn.Parameter]] | None
) -> dict[str, nn.Parameter]:
    """Parameters to train, by their names in `module`; the names in `named_params` do not matter."""
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
    if named_params is not None:
        asked = {id(p): name for name, p in named_params}
        of_module = {id(p) for p in module.parameters()}
        for identity, name in asked.items():
            if identity not in of_module:
                raise ConfigError(f"named_params: {name} is not a parameter of the model.")
        trained = {name: p for name, p in trained.items() if id(p) in asked}
    for name in (name for name, parameter in trained.items() if parameter.is_meta):
        raise ConfigError(
            f"Parameter {name} is on the device meta, which holds no numbers: call "
            "model.to_empty(device=...) and initialise the weights, before optimizer and engine are made."
        )
    if not trained:
        raise ConfigError("The model has no parameter that requires gradients; nothing can be trained.")
    return trained


def check_generator(generator: EngineNoise | None, *, has_ranks: bool = False) -> EngineNoise:
    """`generator`, or "secure" for None; ConfigError for anything but "secure" or a torch.Generator.

    With ranks, noise is integers, which only "secure" makes.
    """
    if has_ranks and generator not in (None, "secure"):
        raise ConfigError("ranks= adds noise in integers: leave out generator=, or give 'secure'.")
    if generator is None or isinstance(generator, torch.Generator):
        return generator or "secure"
    if generator != "secure":
        raise ConfigError(f"generator={generator!r}: expected 'secure' or a torch.Generator.")
    return generator


def check_optimizer(
    optimizer: torch.optim.Optimizer, trained: Mapping[str, nn.Parameter], *, has_all: bool = True
) -> None:
    """ConfigError unless every parameter that the optimizer moves gets a gradient from the engine.

    A parameter that was frozen later is also refused: it would get only noise. has_all: and unless the
    optimizer moves every parameter of the engine.
    """
    protected = {id(parameter): name for name, parameter in trained.items()}
    missing = dict(protected)
    for name, parameter in trained.items():
        if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
            raise ConfigError(
                f"{name} has a hook for its gradient, which a private step does not call. Remove the hook; "
                "to keep weights at zero, multiply them by the mask after optimizer.step."
            )
        if not parameter.requires_grad:
            raise ConfigError(
                f"{name} was frozen after the engine was made and would get only noise; make a new engine."
            )
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if id(parameter) in protected:
                missing.pop(id(parameter), None)
                continue
            shape = tuple(parameter.shape)
            if parameter.requires_grad:
                raise ConfigError(
                    f"The optimizer trains a parameter of shape {shape} that the engine does not have; name "
                    "it in named_params, remove it from the optimizer or, if it was frozen when the engine "
                    "was made, make a new engine."
                )
            if parameter.grad is not None:
                raise ConfigError(
                    f"The optimizer would move a frozen parameter of shape {shape} that the engine does not "
                    "have, by the gradient that was left in it; call optimizer.zero_grad()."
                )

    for name in missing.values() if has_all else ():
        raise ConfigError(
            f"The optimizer does not hold {name}, whose gradient the engine pays for: add it to the "
            "optimizer, or give PrivacyEngine(named_params=...) the others alone, or freeze it before that."
        )


def check_module(module: nn.Module, trained: Mapping[str, nn.Parameter], known: Collection[int]) -> None:
    """ConfigError unless the module still has the engine's parameters, and no new ones to train.

    known: identities of all its parameters when the engine was made.
    """
    now = dict(module.named_parameters())
    again = "call detach(), and make a new optimizer and engine: parameters that remain keep their count"
    for name, parameter in trained.items():
        if now.get(name) is not parameter:
            raise ConfigError(
                f"The model has another parameter {name} than the engine, or none: it was replaced (a new "
                "layer, load_state_dict(assign=True), pruning), and the new one would never be trained. In "
                f"that case {again}."
            )
    for name, parameter in now.items():
        if parameter.requires_grad and id(parameter) not in known:
            raise ConfigError(f"{name} came into the model after the engine was made; to train it, {again}.")


def check_same_settings(saved: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """ConfigError if a saved engine had other settings; names those that differ."""
    differing = [name for name in {**saved, **own} if saved.get(name) != own.get(name)]
    if differing:
        had, has = ({name: each.get(name) for name in differing} for each in (saved, own))
        raise ConfigError(f"The saved engine had {had}, this one has {has}.")


def check_kernels(kernels: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """`kernels`, if all its names are trained parameters; else ConfigError."""
    for name in kernels:
        if name not in names:
            raise ConfigError(
                f"kernels: {name} is not a parameter that is trained; they are {', '.join(names)}."
            )
    return dict(kernels)


class Fixed:
    """Refuses copies, and assignment to any public name, known or not, after `_is_made` was set.

    A setting by which steps are priced must not change under them; nothing would read a misspelt one.
    """

    _is_made = False

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_made and not name.startswith("_"):
            raise ConfigError(
                f"engine.{name} cannot be assigned: what steps do and cost is fixed when the engine is made. "
                "Give it to PrivacyEngine(...). For other noise or another bound later, call detach() and "
                "make a new engine, which continues the count."
            )
        super().__setattr__(name, value)

    if not TYPE_CHECKING:  # so that mypy still finds a misspelt name

        def __getattr__(self, name: str) -> NoReturn:
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name in _INSTEAD_OF:
                message += f"; here it is {_INSTEAD_OF[name]} (docs/migrating.md)"
            raise AttributeError(message, name=name, obj=self)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise ConfigError(
            "A copy of an engine would repeat its noise; make a new one, and load state_dict()."
        )
