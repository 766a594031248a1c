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
from fl_dp.records import NUMERICS, Entry
from fl_dp.reporting.reports import (
    ClientRound,
    FederationBudget,
    OpenedSum,
    RoundReport,
    RunCost,
    epsilon_from_json,
)

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
        return _report(json.loads(self.line)) if self.line else None


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
        state.last_report()  # so that a damaged report is noticed before any client is asked
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


def _report(line: Mapping[str, Any]) -> RoundReport:
    """The report from which the line was made. A null epsilon is infinite, which JSON cannot express."""
    clients = {name: _client_round(one) for name, one in line["clients"].items()}
    together = _with_epsilons(line["federation"])
    names = {key: tuple(together[key]) for key in ("accountants", "running_out")}
    federation = FederationBudget(**{**together, **names})
    opened = OpenedSum(**line["secure_sum"]) if line.get("secure_sum") else None
    fields = {**_with_epsilons(line), "clients": clients, "federation": federation, "secure_sum": opened}
    return RoundReport(**fields)


def _client_round(line: Mapping[str, Any]) -> ClientRound:
    fields = {**_with_epsilons(line), "charges": _charges(line)}
    if cost := line.get("this_run"):
        fields["this_run"] = RunCost(**{**_with_epsilons(cost), "charges": _charges(cost)})
    return ClientRound(**{**fields, "reported": tuple(line["reported"].items())})


def _charges(line: Mapping[str, Any]) -> tuple[Entry, ...]:
    return tuple(Entry.from_dict(entry) for entry in line.get("charges", ()))


def _with_epsilons(fields: Mapping[str, Any]) -> dict[str, Any]:
    epsilons = {"epsilon", "largest", "median", "least", "epsilon_alone"}
    return {key: epsilon_from_json(value) if key in epsilons else value for key, value in fields.items()}
