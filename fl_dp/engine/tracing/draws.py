"""Random numbers in a forward pass: their source, and what still differs if every place draws the same.

Dropout may give each place of a batch another mask, if the masks come from torch's global generator, whose
state nobody else knows. Under a known seed an adversary knows the masks, and can choose weights whose masked
terms cancel for the records in their places, until one more record shifts all of them.

So an output may depend on its place only through the global generator. `Watch(seed, level)` shows other
dependences: it gives every entry of a mask the same number, which depends only on the rate and on `level`.
Then no place differs from another by what it draws. Other random numbers than dropout's are refused.

`Watch(None)` does the same under the user's own random state. So a batch can be compared with a part of it,
which would otherwise draw fewer numbers, and so others.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from fl_dp.errors import ProbeError

# One number for all must not hide a part of the model: a part that is dropped in every place shows nothing.
# Coins may show what is kept or what is dropped. Each mask keeps what it masks at one level or another; at
# the middle one all do, for rates below 0.45.
LEVELS = (0.45, 0.05, 0.95)

# Names of arguments: rates of dropout inside of operators, and whether an operator draws at all.
_RATES, _MODES = frozenset({"dropout_p", "dropout"}), frozenset({"train", "training"})
_PACK = torch.ops.aten._pack_padded_sequence.default


class RandomState:
    """The state of torch's global generators, as it is when this is made."""

    def __init__(self) -> None:
        self._states = [generator.get_state() for generator in _global_generators()]

    def set(self) -> None:
        """Bring the state back."""
        for generator, state in zip(_global_generators(), self._states, strict=False):
            generator.set_state(state)

    def has_moved(self) -> bool:
        """Whether numbers were drawn since."""
        now = RandomState()._states
        return not all(torch.equal(*pair) for pair in zip(self._states, now, strict=False))


def seed_generators(seed: int) -> None:
    """Seed torch's global generators as they are now.

    `torch.manual_seed` would also seed GPUs that this process first uses later, when the state that
    `kept_random_state` brings back no longer reaches them: their masks would come from a known seed.
    """
    for generator in _global_generators():
        generator.manual_seed(seed)


@contextmanager
def kept_random_state() -> Iterator[None]:
    """At the end, torch's global random state is as before."""
    state = RandomState()
    try:
        yield
    finally:
        state.set()


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is active, random numbers may only come from torch's global generator, seeded with `seed`.

    level: None: numbers are drawn as always; else a coin shows 1 in all places if its chance is larger.
    drew: whether there was any draw. packed: whether sequences were packed. dtypes: of all results.

    Raises ProbeError if numbers come from elsewhere, or are not those of dropout.

    seed: None: numbers may come from anywhere, and the generators stay as they are. All entries of a draw are
    alike, and such that masks drop nothing. A number without a dimension is drawn as always: a coin for the
    whole batch is the same for every row, and must fall as it does in training.
    """

    supports_higher_order_operators = True  # they are passed on, and not inspected

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """True: otherwise the first call would import PyTorch's compiler, which takes a second."""
        return False

    def __init__(self, seed: int | None, level: float | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.drew = self.packed = False
        self.dtypes: set[torch.dtype] = set()
        self._seed, self._level = seed, level
        self._left = ExitStack()

    def __enter__(self) -> Self:
        if self._seed is not None:
            seed_generators(self._seed)
        if "torch._dynamo" in sys.modules:  # let a compiled model run eagerly, so that every operator is seen
            self._left.enter_context(torch.compiler.set_stance("force_eager"))
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
        self._left.close()
        if kind is None:
            self.check_source()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.packed |= func is _PACK
        result = self._drawn(func, args, kwargs or {}) if _may_draw(func) else func(*args, **(kwargs or {}))
        for part in result if isinstance(result, tuple) else (result,):
            if isinstance(part, Tensor):
                self.dtypes.add(part.dtype)
        return result

    @property
    def eps(self) -> float:
        """The coarsest relative rounding of any result: the final outputs may have a finer type."""
        return max((torch.finfo(dtype).eps for dtype in self.dtypes if dtype.is_floating_point), default=0.0)

    def _drawn(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        draw = _Draw(func, args, kwargs, self._level)
        if draw.is_off:
            return draw.real()
        self.drew = True
        self.check_source(draw.named.get("generator"))
        rule = _RULES.get(func.overloadpacket, _without_dropout if draw.dropout else None)
        if rule is None:
            raise ProbeError(
                f"The forward pass draws random numbers by {func.overloadpacket}; only those of dropout are "
                "known: torch.nn.Dropout and its kind, dropout in attention and recurrent layers, and "
                "bernoulli. Make a mask by torch.nn.functional.dropout(torch.ones_like(x), rate); draw other "
                "numbers when the data are read, and give them to the model with each example."
            )
        if self._seed is None:
            with kept_random_state():  # how many numbers a batch draws must not show
                drawn = rule(draw)
            return drawn if not isinstance(drawn, Tensor) or drawn.dim() else draw.real()
        return draw.real() if self._level is None else rule(draw)

    def check_source(self, generator: torch.Generator | None = None) -> None:
        """ProbeError if `generator`, or else the global one, is not as it was seeded."""
        if self._seed is None:
            return
        known = _global_generators()
        own = generator is not None and _identity(generator) not in map(_identity, known)
        if own or any(each.initial_seed() != self._seed for each in known):
            raise ProbeError(
                "The forward pass draws random numbers from a generator of its own, or seeds torch's global "
                "one. Masks and noise under a known seed are known to everybody; draw from torch's global "
                "generator, as torch.nn.Dropout does, and seed it outside of the model."
            )


def _global_generators() -> tuple[torch.Generator, ...]:
    used = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return torch.default_generator, *(torch.cuda.default_generators if used else ())


def _identity(generator: torch.Generator) -> int:
    """Identity of the C++ object: operators get it in a new wrapper each time."""
    return int(generator._cdata)  # type: ignore[attr-defined]


@cache
def _may_draw(func: Any) -> bool:
    """Whether an operator may draw. Not all that do are tagged; the others take a generator."""
    if not isinstance(func, torch._ops.OpOverload):
        return False
    arguments = {argument.name for argument in func._schema.arguments}
    return torch.Tag.nondeterministic_seeded in func.tags or "generator" in arguments


@dataclass(frozen=True, slots=True)
class _Draw:
    """One call of an operator. level: as in `Watch`; None: what masks keep."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    level: float | None

    def real(self) -> Any:
        return self.func(*self.args, **self.kwargs)

    @property
    def named(self) -> Mapping[str, Any]:
        """The arguments by name, including those that were left out."""
        schema = self.func._schema.arguments
        given = {argument.name: value for argument, value in zip(schema, self.args, strict=False)}
        return {argument.name: argument.default_value for argument in schema} | given | self.kwargs

    @property
    def is_off(self) -> bool:
        """Whether it drops nothing: a rate of zero, or not while evaluating."""
        named = self.named
        rates, modes = (named.get(name) for name in _RATES), (named.get(name) for name in _MODES)
        return 0 in rates or False in modes

    @property
    def dropout(self) -> frozenset[str]:
        """The arguments that are rates of dropout inside of the operator."""
        return _RATES & self.named.keys()

    @property
    def coin(self) -> float:
        """A coin shows 1 if its chance is larger."""
        return 0.0 if self.level is None else self.level


def _bernoulli(draw: _Draw) -> Tensor:
    p = draw.named.get("p")  # before the draw, which may overwrite its inputs
    ones = torch.as_tensor(draw.coin) < torch.as_tensor(draw.named["self"] if p is None else p)
    result: Tensor = draw.real()
    return result.copy_(ones)


def _native_dropout(draw: _Draw) -> tuple[Tensor, Tensor]:
    output, mask = draw.real()
    x, p = draw.named["input"], draw.named["p"]
    kept = draw.coin < 1 - p
    return output.copy_(x / (1 - p) if kept else torch.zeros_like(x)), mask.fill_(kept)


def _without_dropout(draw: _Draw) -> Any:
    """Attention and recurrent layers with dropout inside run without it."""
    (name,) = draw.dropout
    at = [argument.name for argument in draw.func._schema.arguments].index(name)
    if at < len(draw.args):
        return draw.func(*draw.args[:at], 0.0, *draw.args[at + 1 :], **draw.kwargs)
    return draw.func(*draw.args, **{**draw.kwargs, name: 0.0})


_aten = torch.ops.aten
_RULES: Mapping[Any, Callable[[_Draw], Any]] = {
    _aten.bernoulli: _bernoulli,
    _aten.bernoulli_: _bernoulli,
    _aten.native_dropout: _native_dropout,
}
