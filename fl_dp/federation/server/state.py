"""A run's state between two rounds: a plain record, saved by one function and loaded by one.

The file is an .npz archive of the arrays, the last round's line and, as JSON, everything else. It is written
whole or not at all, and nothing in it is ever executed.
"""

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated

import numpy as np

from fl_dp.config.run import MAY_CHANGE, RunConfig
from fl_dp.config.setting import MOST_SEED
from fl_dp.durable_files import write_whole
from fl_dp.errors import ConfigError
from fl_dp.federation.server.client_record import ClientRecord
from fl_dp.federation.wire.arrays import NDArray, below
from fl_dp.records import NUMERICS
from fl_dp.reporting.reports import RoundReport
from fl_dp.reporting.run_files import read_round
from fl_dp.schema import Range, UnfitError, read_json, to_json

STATE = "state.npz"
VERSION = 8  # of the file; a state of another one is declined
_HEADER, _LINE, _SECRET = "header", "line", "secret"
_ARRAY, _AGGREGATED, _KEPT = "array ", "aggregated ", "kept "
_Setting = str | Annotated[int, Range(0, MOST_SEED)] | float | bool  # as a config allows, beyond 2^53


@dataclass(frozen=True, kw_only=True)
class _Header:
    """What is saved as JSON, by the strict schema of its annotations."""

    version: int = VERSION
    run: str
    origin: str = ""
    settings: Mapping[str, _Setting]
    numerics: int = NUMERICS
    started: str = ""
    seconds: float = 0.0
    clients: tuple[ClientRecord, ...] = ()
    registered: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RunState(_Header):
    """The state between two rounds, or before the first, once clients have registered.

    run: its name in the clients' ledgers. origin: its first name. settings: the flat run config. numerics:
    the `NUMERICS` of the fl_dp that ran it. started: when the run first started, UTC, ISO 8601; seconds: how
    long its rounds took. clients: all that ever registered, with what they were asked for and paid;
    registered: the names of those that need not register again.
    last: the last round's report; None before the first. secret: decides the choice of clients. arrays: the
    complete global model. aggregated: what aggregation and server optimizer keep. kept: the state of a model
    that is kept beside the last one.
    """

    last: RoundReport | None = None
    secret: bytes = field(repr=False)
    arrays: Mapping[str, NDArray] = field(default_factory=dict)
    aggregated: Mapping[str, NDArray] = field(default_factory=dict)
    kept: Mapping[str, NDArray] = field(default_factory=dict)

    @property
    def rounds(self) -> int:
        return self.last.round if self.last else 0

    def check_same(self, config: RunConfig) -> None:
        """ConfigError if the run was started with other numerics or settings; it names the setting."""
        if self.numerics != NUMERICS:
            raise ConfigError(
                f"the run was started with numerics {self.numerics}, this fl_dp has {NUMERICS}: the "
                "same round would give a different update. Resume it with the fl_dp that started it, or "
                "start a new run."
            )
        for key, value in config.to_flat().items():
            if key not in {*MAY_CHANGE, "out"} and value != self.settings.get(key):
                raise ConfigError(
                    f"{key} = {value!r}: the run was started with {self.settings.get(key)!r}; set that "
                    "again, or start a new run."
                )


def write_state(path: Path, state: RunState) -> None:
    """Write the state to `path`, readable by its owner alone; it is on the disk when this returns."""
    texts = {_HEADER: to_json(_Header, state), _LINE: state.last.line.encode() if state.last else b""}
    parts: dict[str, NDArray] = {
        name: np.frombuffer(text, np.uint8) for name, text in {**texts, _SECRET: state.secret}.items()
    }
    for start, arrays in ((_ARRAY, state.arrays), (_AGGREGATED, state.aggregated), (_KEPT, state.kept)):
        parts |= {start + name: array for name, array in arrays.items()}
    write_whole(path, lambda file: np.savez(file, **parts), secret=True)  # type: ignore[arg-type]


def read_state(path: Path) -> RunState:
    """The state at `path`; ConfigError, with the path, if it is damaged or no state that this fl_dp reads."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            header = archive[_HEADER].tobytes()
            if (version := json.loads(header)["version"]) != VERSION:
                raise ConfigError(
                    f"{path}: is of format {version!r:.20}, this fl_dp reads {VERSION}; resume the run with "
                    "the fl_dp that started it."
                )
            found = read_json(_Header, header)
            if to_json(_Header, found) != header:  # a field that was left out has become its default
                raise ValueError
            line, secret = archive[_LINE].tobytes(), archive[_SECRET].tobytes()
            arrays = {name: archive[name] for name in archive.files if " " in name}
    except UnfitError as error:
        raise _damaged(path, error.problem) from None
    except ConfigError:
        raise
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise _damaged(path, type(error).__name__) from None
    return RunState(
        **{one.name: getattr(found, one.name) for one in fields(found)},
        last=read_round(line, f"{path}, the last round") if line else None,
        secret=secret,
        arrays=below(_ARRAY, arrays),
        aggregated=below(_AGGREGATED, arrays),
        kept=below(_KEPT, arrays),
    )


def _damaged(path: Path, what: str) -> ConfigError:
    return ConfigError(f"{path}: damaged, or not the state of a run ({what}); it cannot be resumed.")
