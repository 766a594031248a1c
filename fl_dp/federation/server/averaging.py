"""The moving average of the rounds' models, where a run keeps that: less noisy than the last of them.

Post-processing of noised updates, so that it costs no privacy (De et al. 2022, arXiv 2204.13650, average over
steps in the same way). Clients go on from the last model, never from the average.
"""

from collections.abc import Collection, Mapping

import numpy as np
from flwr.app import ArrayRecord

from fl_dp.errors import ConfigError
from fl_dp.federation.wire.arrays import NDArray, encode

_AVERAGED = "averaged "  # before the names of all that is remembered
_ARRAY, _ROUNDS = _AVERAGED + "array ", _AVERAGED + "rounds"


class Averaging:
    """decay: in [0, 1), of the average, which takes 1 - decay of each round's model; None: there is none.

    The first rounds have smaller decays, (1 + t) / (10 + t) after t of them: the random weights that a run
    begins with would else stay in it for long. shared: names of the arrays that are averaged, those that
    clients train; the others are the last model's.
    """

    def __init__(self, decay: float | None, shared: Collection[str]) -> None:
        self._decay, self._shared = decay, shared
        self._average: dict[str, NDArray] = {}  # float64
        self._rounds = 0

    @property
    def on(self) -> bool:
        """Whether an average is kept."""
        return self._decay is not None

    def add(self, arrays: ArrayRecord) -> None:
        """Take the model of a round that was not lost into the average."""
        if self._decay is None:
            return
        decay = min(self._decay, (1 + self._rounds) / (10 + self._rounds)) if self._rounds else 0.0
        for name in self._shared:
            new = arrays[name].numpy().astype(np.float64)
            self._average[name] = decay * self._average.get(name, new) + (1 - decay) * new
        self._rounds += 1

    def model(self, last: ArrayRecord) -> ArrayRecord:
        """The average, in the shapes and types of the last model; that one itself where there is none."""
        found = {name: array.astype(last[name].numpy().dtype) for name, array in self._average.items()}
        return ArrayRecord({**last, **encode(found)}) if found else last

    def state(self) -> dict[str, NDArray]:
        """What a resumed run goes on from; nothing before the first round."""
        if not self._rounds:
            return {}
        return {
            _ROUNDS: np.array(self._rounds),
            **{_ARRAY + name: one for name, one in self._average.items()},
        }

    def restore(self, state: Mapping[str, NDArray], last: Mapping[str, NDArray]) -> dict[str, NDArray]:
        """Go on from what is its own in that state; the rest of it. last: the model of the last round.

        ConfigError for half of its own, or what is no average of such models: else the next round would be
        paid for, and then fail.
        """
        own = {name: array for name, array in state.items() if name.startswith(_AVERAGED)}
        if own:
            rounds = own.pop(_ROUNDS, None)
            shapes = {_ARRAY + name: last[name].shape for name in self._shared}
            found = {name: array.shape for name, array in own.items() if _are_numbers(array)}
            if rounds is None or not _is_count(rounds) or found != shapes or own.keys() != shapes.keys():
                raise ConfigError(
                    "the run's state holds no average of this model; resume the run with the fl_dp that "
                    "began it."
                )
            self._rounds = int(rounds)
            self._average = {name.removeprefix(_ARRAY): array for name, array in own.items()}
        return {name: array for name, array in state.items() if not name.startswith(_AVERAGED)}


def _are_numbers(array: NDArray) -> bool:
    return array.dtype == np.float64 and bool(np.isfinite(array).all())


def _is_count(array: NDArray) -> bool:
    return array.dtype.kind == "i" and array.shape == () and int(array) >= 1
