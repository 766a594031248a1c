"""Checks that a forward pass leaves nothing in the model that is saved or read again.

Whatever a pass leaves in the model is data without noise. So the model's contents are noted before and after
each pass, and restored after the step: an attention map kept for inspection is removed, and a table that the
first pass builds is built again. What is in the `state_dict`, or is read by a later pass, is refused.
"""

import random
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from fl_dp.engine.tracing.draws import kept_random_state, seed_generators
from fl_dp.engine.tracing.harness import SEED, batch_of, same
from fl_dp.engine.tracing.independence import remembers
from fl_dp.engine.tracing.state import Moment, State, Written
from fl_dp.engine.tracing.structure import tensors
from fl_dp.engine.tracing.writes import differing, held, same_values, written_to
from fl_dp.errors import ModelError, ProbeError

Inputs = tuple[tuple[Any, ...], dict[str, Any]]


class PassWatch:
    """Watches what the model holds around each pass with gradients, from its call to `finish`.

    every: contents are also compared in the first pass of each mode, and in one pass of `every` on average.
    mode: which modules were in training mode at the last call. inputs: zeros in place of its arguments.
    in_evaluation: whether a pass could only be repeated in evaluation mode. are_buffers_moved: whether some
    buffer was written between passes, as of the last look.
    """

    def __init__(self, module: nn.Module, every: int) -> None:
        self._module, self._every, self._chance = module, every, random.SystemRandom()
        self._state = State(module)
        self.mode: tuple[bool, ...] = ()
        self._structure: object = None  # in which that was the mode
        self.inputs: Inputs | None = None
        self.in_evaluation = self._is_off = False
        self._known: set[str] = set()  # places that were seen to be written and not read
        self._before: Moment | None = None
        self._after: Moment | None = None
        self._aside: tuple[Moment, Moment] | None = None  # around the last pass without gradients
        self._buffers: list[int] | None = None  # their versions at the start, and after the last step
        self.are_buffers_moved = False
        self._contents: Contents | None = None
        self._written: list[Written] = []
        self._to_repeat: Inputs | None = None  # records, until the step

    @property
    def structure(self) -> object:
        """Another object whenever parts of the model may have changed."""
        return self._state.tables

    def look(self) -> Moment:
        """What the model holds. Notes whether some buffer was written since the last look."""
        now = self._state.look()
        if self._buffers is not None:
            if (seen := self._aside[1] if self._aside else self._after or self._before) is None:
                self.are_buffers_moved |= self._state.buffer_versions() != self._buffers
            else:
                self.are_buffers_moved |= any(one.kind == "buffer" for one in seen.changes(now))
        return now

    def start(self) -> None:
        """From now on, report a buffer that is written between passes or before the first one."""
        if self._buffers is None:
            self._state.look()
            self._buffers = self._state.buffer_versions()

    def begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A forward pre-hook."""
        if self._is_off:
            return
        now = self.look()
        if not torch.is_grad_enabled():  # an evaluation; a step may still come for the pass before it
            self._aside = now, now
            return
        if self._aside or self._before:
            self._aside_back()
            self.drop()  # of a pass that had no step
            now = self._state.look()
        self._before, before = now, self.mode
        if self.structure is not self._structure:
            self._structure, self.mode = self.structure, mode_of(module)
        is_new = self.inputs is None or self.mode != before
        if is_new:
            self.inputs = _zeros(args, kwargs)
        if is_new or self._chance.randrange(self._every) == 0:
            self._contents = Contents(module)

    def end(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """A forward hook. Raises ProbeError for what a pass may not write, also where no step follows."""
        if self._is_off:
            return
        now = self._state.look()
        if not torch.is_grad_enabled():
            before = self._aside[0] if self._aside else now
            self._aside = before, now
            self._refuse(before.changes(now))
            return
        if self._before is None:
            return
        self._after, self._written = now, self._before.changes(now)
        self._refuse(self._written)
        if any(one.path not in self._known for one in self._written):
            self._to_repeat = args, kwargs

    @contextmanager
    def checking(self) -> Iterator[None]:
        """In this context the model holds what it held before the pass. Places written in it become known."""
        self._put_back()
        before, self._is_off = self._state.look(), True
        try:
            yield
        finally:
            self._is_off = False
            now = self._state.look()
            self._known |= {one.path for one in before.changes(now)}
            before.put_back(now)

    def finish(self) -> None:
        """After the backward pass: undo what was written. ProbeError for what lasts or would be read."""
        try:
            self._aside_back()
            self._check_backward()
            self._put_back()
            if self._contents is not None:
                self._contents.check()
            if any(one.path not in self._known for one in self._written):
                self._check_unread()
        finally:
            self._forget()
        self._buffers = self._state.buffer_versions()

    def _refuse(self, written: Iterable[Written]) -> None:
        """ProbeError if a place was written that is saved, or that cannot be put back."""
        lasting = [one for one in written if one.lasts]
        if lasting and self._contents is not None:
            contents, self._contents = self._contents, None
            self._put_back()
            contents.check()  # which brings back what it can
        for one in lasting:
            raise written_to(one, self._module)

    def drop(self) -> None:
        """Undo what a pass without a step has written, and forget it.

        Only attributes: somebody may be checking the model, with other parameters and buffers in it.
        """
        self._put_back(lasting=False)
        self._forget()

    def _aside_back(self) -> None:
        """Undo what an evaluation has written to attributes: this pass must not read it."""
        if self._aside is not None:
            before, after = self._aside
            before.put_back(after, lasting=False)
            self._aside = None

    def _forget(self) -> None:
        if self._written:
            self._state.look()  # which else refers to what was there
        self._before = self._after = self._contents = self._to_repeat = None
        self._written = []

    def _put_back(self, *, lasting: bool = True) -> None:
        if self._before is not None:
            self._before.put_back(self._after or self._state.look(), lasting=lasting)

    def _check_backward(self) -> None:
        """ProbeError for what the losses, the backward pass or the user changed after the model's call."""
        if self._after is None:
            return
        known = {one.path for one in self._written}  # what a checkpointed part writes again
        for one in self._after.changes(self._state.look()):
            if one.lasts:
                raise written_to(one, self._module)
            if one.path not in known:
                raise ProbeError(
                    f"The model's {one.kind} {one.path} changed between its call and the end of the step, "
                    "and may hold data; change it before the call, or after the step."
                )

    def _check_unread(self) -> None:
        """Repeat the pass with one random state: without what it wrote, and with it."""
        if self._to_repeat is None:
            return
        modes = [(module, module.training) for module in self._module.modules()]
        before, self._is_off = self._state.look(), True
        try:
            first, reading, again = self._repeated(), self._repeated(), self._repeated(before)
            if not _alike(first, again):
                self.in_evaluation = True
                self._module.eval()
                first, reading = self._repeated(before), self._repeated()
            if not _alike(first, reading):
                raise remembers(self._written)
            self._known |= {one.path for one in self._written}
        finally:
            before.put_back(self._state.look())
            for module, mode in modes:
                module.training = mode
            self._is_off = False

    def _repeated(self, start: Moment | None = None) -> Mapping[str, Tensor]:
        """The outputs; start: what the model holds before."""
        if start is not None:
            start.put_back(self._state.look())
        assert self._to_repeat is not None
        args, kwargs = self._to_repeat
        with kept_random_state():
            seed_generators(SEED)
            outputs = self._module(*args, **kwargs)
        return {path: output.detach() for path, output in tensors(outputs)}


class Contents:
    """Copies of all that a model holds."""

    def __init__(self, module: nn.Module) -> None:
        self._module, self._attributes = module, held(module)
        self._tensors = {name: tensor.detach().clone() for _, name, tensor in self._own()}

    def _own(self) -> Iterator[tuple[str, str, Tensor]]:
        yield from (("parameter", *one) for one in self._module.named_parameters())
        yield from (("buffer", *one) for one in self._module.named_buffers())

    def check(self) -> None:
        """ProbeError for other contents; parameters and buffers get theirs back."""
        found = []
        for kind, name, tensor in self._own():
            if not same_values(tensor.detach(), self._tensors[name]):
                tensor.data.copy_(self._tensors[name])
                found.append(Written(name, kind, lasts=True))
        found += [
            Written(path, "attribute", True) for path in differing(self._attributes, held(self._module))
        ]
        for one in found:
            raise written_to(one, self._module)


def mode_of(module: nn.Module) -> tuple[bool, ...]:
    """Which of its modules are in training mode."""
    return tuple([part.training for part in module.modules()])


def _alike(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(same(tensor, other[path]) for path, tensor in one.items())


def _zeros(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Inputs:
    """The arguments with zeros in place of examples: the check of the model only needs their shapes."""

    def zeros(tensor: Tensor) -> Tensor:
        if tensor.is_contiguous() and tensor.layout == torch.strided:
            return torch.zeros((), dtype=tensor.dtype, device=tensor.device).expand(
                tensor.shape
            )  # takes no memory
        return torch.zeros_like(tensor)

    try:
        batch = batch_of(args, kwargs)
    except ModelError:  # no tensor could hold examples
        return args, kwargs
    blank = batch.mapped(zeros, batch.size)
    return blank.args, blank.kwargs
