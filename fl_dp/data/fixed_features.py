"""Fixed functions of single records, such as the scattering transform, chosen by the setting `features`.

Each is a function of one record alone. Nothing is fitted, sampled or counted, so it costs no privacy. A
ledger identifies the record as it was read.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fl_dp.choices import FEATURES
from fl_dp.errors import ConfigError, DataError

logger = logging.getLogger("fl_dp")

_RECORDS = 4096  # processed at a time: bounds the memory beside the result
_TRIED = 3  # made-up records


@dataclass(frozen=True, slots=True)
class Features:
    """The constant `FEATURES` of a file in features/.

    of: takes records as they were read, (n, ...), and the argument; returns float32 features (n, ...). Each
    row is a function of that record alone, to the last bit: the same in any batch.
    shape: takes the shape of one record and the argument; returns the shape of its features. ValueError, with
    the reason, for a shape or argument that it cannot take. It is called before any record is seen.
    argument: its name in errors, DEPTH of `scatter:DEPTH`. None: there is none.
    default: the argument if it is left out; empty: it is required.
    """

    of: Callable[[Tensor, str], Tensor]
    shape: Callable[[tuple[int, ...], str], tuple[int, ...]]
    argument: str | None = None
    default: str = ""


@dataclass(frozen=True, slots=True)
class FixedFeatures:
    """A choice of features with its argument. name: both, in full, as sites compare them: `scatter:2`."""

    name: str

    def shape(self, record: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the features of one record of that shape; DataError if it has none."""
        chosen, argument = _chosen(self.name)
        try:
            return chosen.shape(record, argument)
        except ValueError as error:
            raise DataError(
                f"features = {self.name!r} cannot be computed for records of shape {record}: {error}. "
                "Leave features empty, or use other data."
            ) from None

    def of(self, x: Tensor) -> Tensor:
        """(n, *shape) float32 features of records (n, ...) as they were read. Logs how long it took.

        DataError for features that are not finite, or of another shape than declared; ConfigError as
        `check_alone`, which is called first.
        """
        chosen, argument = _chosen(self.name)
        made = torch.empty(len(x), *self.shape(tuple(x.shape[1:])))
        self.check_alone(x.new_empty(0, *x.shape[1:]))
        size, started = made.numel() * made.element_size() / 2**20, time.perf_counter()
        logger.info("computing features %s, %.0f MiB", self.name, size)
        for start in range(0, len(x), _RECORDS):
            # A copy: what identifies a record must stay as it was read. And nothing is learned here.
            with torch.no_grad():
                part = chosen.of(x[start : start + _RECORDS].clone(), argument)
            if part.shape[1:] != made.shape[1:] or not part.isfinite().all():
                raise DataError(f"features = {self.name!r}: expected finite numbers {tuple(made.shape[1:])}.")
            made[start : start + _RECORDS] = part
        logger.info("features %s took %.0f s", self.name, time.perf_counter() - started)
        return made

    def check_alone(self, like: Tensor) -> None:
        """Raise ConfigError if a record's features depend on the other records in the batch.

        Tried on made-up records of the type and shape of `like`, whose rows are not read.
        """
        chosen, argument = _chosen(self.name)
        generator = torch.Generator().manual_seed(0)
        made_up = torch.randint(0, 256, (_TRIED, *like.shape[1:]), generator=generator).to(like.dtype)
        together = chosen.of(made_up.clone(), argument)
        alone = torch.cat([chosen.of(made_up[row : row + 1].clone(), argument) for row in range(_TRIED)])
        if not torch.equal(together, alone):
            raise ConfigError(
                f"features = {self.name!r}: a record's features depend on other records, so no epsilon "
                "would hold. They must be a function of one record."
            )


def features_of(setting: str) -> FixedFeatures | None:
    """The features that the setting names; None if it is empty.

    ConfigError for a name that is not in features/, and for a wrong argument.
    """
    if not setting:
        return None
    _, argument = _chosen(setting)
    name = setting.partition(":")[0]
    return FixedFeatures(f"{name}:{argument}" if argument else name)


def _chosen(name: str) -> tuple[Features, str]:
    """The descriptor, and the argument or its default."""
    chosen = FEATURES.load(name, Features)
    argument = FEATURES.argument(name, chosen.argument, optional=bool(chosen.default))
    return chosen, argument or chosen.default
