"""Checks a model with inputs like those of the user's own calls, and watches each of its passes."""

from collections.abc import Callable, Mapping

from torch import nn

from fl_dp.engine.backward import Axes
from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.probe import joined, probed
from fl_dp.errors import ConfigError, UnseenUseError
from fl_dp.privacy_engine.forward_passes import PassWatch, mode_of
from fl_dp.privacy_engine.settings import check_module

_LOOK_UPS = ("EmbeddingBackward0", "EmbeddingBagBackward0")
_TURNS = 3  # further checks of a model whose step uses a parameter in a new way


class ModelCheck:
    """Checks a model once in every mode: batch norm, for one, mixes examples only in training mode.

    Register `watch.begin` as a forward pre-hook and `watch.end` as a forward hook, both with keywords.
    parameters: those that are trained, by name. every: see `PassWatch`.
    """

    def __init__(self, module: nn.Module, parameters: Mapping[str, nn.Parameter], every: int) -> None:
        self.watch = PassWatch(module, every)
        self._module, self._parameters, self._turn = module, parameters, 0
        self._all = {id(parameter) for parameter in module.parameters()}
        self._structure: object = None  # what the model's parts were when they were last compared
        self._axes: dict[tuple[bool, ...], Axes] = {}

    def check_parts(self) -> None:
        """ConfigError unless the model has the parameters that it had when this was made."""
        if self._structure is not self.watch.structure:
            check_module(self._module, self._parameters, self._all)
            self._structure = self.watch.structure

    def padding_rows(self) -> dict[str, int]:
        """The padding_idx of every table, by name, that was only looked up in, always with this one."""
        tables = [one for one in self._module.modules() if isinstance(one, nn.Embedding | nn.EmbeddingBag)]
        rows = {id(one.weight): one.padding_idx for one in tables if one.padding_idx is not None}
        if not rows:
            return {}
        other = {id(one.weight) for one in tables if one.padding_idx != rows.get(id(one.weight))}
        uses = {key for axes in self._axes.values() for key in axes.batch}
        looked_up = {name for key in uses for name in key.parameters}
        looked_up -= {name for key in uses if key.operator not in _LOOK_UPS for name in key.parameters}
        found = {name: id(one) for name, one in self._parameters.items() if name in looked_up}
        return {name: rows[one] for name, one in found.items() if one in rows and one not in other}

    def clipped(self, clip: Callable[[Axes], ClippedSum]) -> ClippedSum:
        """Clip the last pass by `clip`, which gets the axes of its rows; then undo what the pass has left.

        If a parameter is used in a way that no check saw, as in a layer that was skipped, the model is
        checked again. Raises ConfigError if the model was not called, or its graph was used already; and what
        `probe`, `clip` and `watch` raise.
        """
        self.check_parts()
        try:
            found = self._clipped(clip)
        except RuntimeError as error:
            self.watch.drop()
            if "second time" not in str(error):  # PyTorch's words for a graph that was freed
                raise
            raise ConfigError(
                "The graph of these losses was used up: by a backward(), which a private step does not need, "
                "or by an earlier virtual_step on the same losses. Leave that out."
            ) from error
        except BaseException:
            self.watch.drop()
            raise
        self.watch.finish()
        return found

    def _clipped(self, clip: Callable[[Axes], ClippedSum]) -> ClippedSum:
        axes = self._axes.get(self.watch.mode) or self._probed()
        for _ in range(_TURNS):
            try:
                return clip(axes)
            except UnseenUseError:  # found before the graph was used
                self._turn += 1
                axes = self._axes[self.watch.mode] = joined(axes, self._probed())
        return clip(axes)

    def _probed(self) -> Axes:
        inputs = self.watch.inputs
        if inputs is None:
            raise ConfigError(
                "The model was not called after attach(); call the whole model, not its parts, so that the "
                "engine can check it on inputs of the same kind."
            )
        if self.watch.mode != mode_of(self._module):
            raise ConfigError(
                "The model was switched to training or evaluation mode between its call and the step, "
                "before it was checked; switch after the step."
            )
        with self.watch.checking():
            axes = self._axes[self.watch.mode] = probed(self._module, *inputs, clears=True, turn=self._turn)
        return axes
