"""The server's state between two rounds, in one file, from which a run resumes.

The file is an .npz archive with the arrays of the global model and, under "header", the rest as JSON. It is
written whole or not at all, and nothing in it is ever executed.
"""

import json
import zipfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fl_dp.config.flat import Scalar
from fl_dp.config.run import MAY_CHANGE, RunConfig
from fl_dp.durable_files import write_whole
from fl_dp.errors import ConfigError
from fl_dp.federation.server.accounts_of_tests import AccountOfTests
from fl_dp.federation.server.client_record import ClientRecord, client_of
from fl_dp.federation.wire.arrays import NDArray, below
from fl_dp.records import NUMERICS
from fl_dp.reporting.reports import RoundReport
from fl_dp.reporting.run_files import read_round

STATE = "state.npz"
VERSION = 7  # of the header; a state of another one is declined
_PLAIN = ("run", "origin", "settings", "rounds", "seconds", "line", "numerics", "started")  # header fields
_HEADER, _ARRAY, _AGGREGATED = "header", "array ", "aggregated "


@dataclass(frozen=True)
class ServerState:
    """The server's state between two rounds, or before the first, once clients have registered.

    run: its name in the clients' ledgers; origin: its first name. settings: the flat run config. rounds: the
    number of finished rounds; seconds: how long they took. line: the last round's in rounds.jsonl, without
    the line end; empty before the first. numerics: the `NUMERICS` of the fl_dp that ran them. secret: the
    secret of the choice of clients. clients: all that ever registered; registered: the names of those that
    need not register again. arrays: the complete global model. aggregated: what aggregation, server optimizer
    and local algorithm keep at the server. started: when the run first started, UTC, ISO 8601. tests: the
    sites' accounts of test records, by name.
    """

    run: str
    settings: Mapping[str, Scalar]
    rounds: int
    seconds: float
    line: str
    secret: bytes = field(repr=False)
    clients: Sequence[ClientRecord]
    registered: Collection[str]
    arrays: Mapping[str, NDArray]
    aggregated: Mapping[str, NDArray] = field(default_factory=dict)
    numerics: int = NUMERICS
    origin: str = ""
    started: str = ""
    tests: Mapping[str, AccountOfTests] = field(default_factory=dict)

    def check_same(self, config: RunConfig) -> None:
        """ConfigError if the run was started with other numerics or settings; it names the setting."""
        if self.numerics != NUMERICS:
            raise ConfigError(
                f"the run was started with numerics {self.numerics}, this fl_dp has {NUMERICS}: the "
                "same round would give another update. Resume it with the fl_dp that started it, or start a "
                "new run."
            )
        for key, value in config.to_flat().items():
            if key not in {*MAY_CHANGE, "out"} and value != self.settings.get(key):
                raise ConfigError(
                    f"{key} = {value!r}: the run was started with {self.settings.get(key)!r}; put that back, "
                    "or start a new run."
                )

    def last_report(self) -> RoundReport | None:
        """The report in `line`; None before the first round."""
        return read_round(self.line, STATE) if self.line else None


def write_state(path: Path, state: ServerState) -> None:
    """Write the state to `path`, readable by its owner alone; it is on the disk when this returns."""
    header = {key: getattr(state, key) for key in _PLAIN}
    header |= {
        "version": VERSION,
        "secret": state.secret.hex(),
        "registered": list(state.registered),
        "tests": {name: one.to_row() for name, one in state.tests.items()},
    }
    rows = ",".join(client.row for client in state.clients)  # cached JSON: few rows change in a round
    text = f'{{"clients":[{rows}],{json.dumps(header, allow_nan=False, separators=(",", ":"))[1:]}'
    parts = {_HEADER: np.frombuffer(text.encode(), np.uint8)}
    parts |= {_ARRAY + name: array for name, array in state.arrays.items()}
    parts |= {_AGGREGATED + name: array for name, array in state.aggregated.items()}
    write_whole(path, lambda file: np.savez(file, **parts), secret=True)  # type: ignore[arg-type]


def read_state(path: Path) -> ServerState:
    """The state at `path`; ConfigError, with the path, if it is damaged or no state that this fl_dp reads."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            header: dict[str, Any] = json.loads(archive[_HEADER].tobytes())
            if (version := header["version"]) != VERSION:
                raise ConfigError(
                    f"{path}: is of format {version!r:.20}, this fl_dp reads {VERSION}; resume the run with "
                    "the fl_dp that started it."
                )
            arrays = {name: archive[name] for name in archive.files if name != _HEADER}
        state = _state(header, below(_ARRAY, arrays), below(_AGGREGATED, arrays))
        if state.line:
            read_round(state.line, f"{path}, the last round")  # noticed before any client is asked
        return state
    except ConfigError:
        raise
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise ConfigError(
            f"{path}: damaged, or not the state of a run ({type(error).__name__}); it cannot be resumed."
        ) from None


def _state(
    header: Mapping[str, Any], arrays: Mapping[str, NDArray], aggregated: Mapping[str, NDArray]
) -> ServerState:
    return ServerState(
        **{key: header[key] for key in _PLAIN} | {"started": str(header["started"])},
        secret=bytes.fromhex(header["secret"]),
        clients=[client_of(row) for row in header["clients"]],
        registered=frozenset(header["registered"]),
        tests={name: AccountOfTests.from_row(row) for name, row in header["tests"].items()},
        arrays=arrays,
        aggregated=aggregated,
    )
