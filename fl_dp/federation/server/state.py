"""What a run goes on from: the server's state between two rounds, in one file.

An .npz archive with the arrays of the global model, and under "header" the rest, as JSON. It is there whole
or not at all, and nothing in it is ever executed.
"""

import json
import math
import zipfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fl_dp.config.flat import Scalar
from fl_dp.config.run import RunConfig
from fl_dp.durable_files import write_whole
from fl_dp.errors import ConfigError
from fl_dp.federation.server.client_record import Member, member_of
from fl_dp.federation.wire.arrays import NDArray
from fl_dp.reporting.reports import ClientRound, FederationBudget, RoundReport

STATE = "state.npz"
_VERSION = 2  # of the format
_HEADER, _ARRAY = "header", "array "
# These say where and how long, not what is done.
_MAY_CHANGE = frozenset(
    {"out", "memory-mib", "clients-per-cpu", "clients-per-gpu", "client-timeout", "round-timeout"}
)


@dataclass(frozen=True)
class ServerState:
    """The server between two rounds, or before the first when it knows its clients.

    run: its name in the clients' ledgers. settings: the run config, flat. rounds: how many are over.
    seconds: that they took. line: of the last one in rounds.jsonl, without its end; empty before the first.
    secret: of the choice of clients. members: every client that was ever there; heard: the names of
    those that need not say hello again. arrays: of the global model, complete.
    """

    run: str
    settings: Mapping[str, Scalar]
    rounds: int
    seconds: float
    line: str
    secret: bytes = field(repr=False)
    members: Sequence[Member]
    heard: Collection[str]
    arrays: Mapping[str, NDArray]

    def check_same(self, config: RunConfig) -> None:
        """ConfigError, with the key, when the run was started with other settings than `config`."""
        for key, value in config.to_flat().items():
            if key not in _MAY_CHANGE and value != self.settings.get(key):
                raise ConfigError(
                    f"{key} = {value!r}: the run was started with {self.settings.get(key)!r}; put that back, "
                    "or start a new run."
                )

    def last_report(self) -> RoundReport | None:
        """The report that `line` is; None before the first round."""
        return _report(json.loads(self.line)) if self.line else None


def write_state(path: Path, state: ServerState) -> None:
    """Write the state to `path`, readable by its owner alone; it is on the disk when this returns."""
    header = {key: getattr(state, key) for key in ("run", "settings", "rounds", "seconds", "line")}
    header |= {"version": _VERSION, "secret": state.secret.hex(), "heard": list(state.heard)}
    rows = ",".join(member.row for member in state.members)  # JSON already: few change in a round
    text = f'{{"members":[{rows}],{json.dumps(header, allow_nan=False, separators=(",", ":"))[1:]}'
    parts = {_HEADER: np.frombuffer(text.encode(), np.uint8)}
    parts |= {_ARRAY + name: array for name, array in state.arrays.items()}
    write_whole(path, lambda file: np.savez(file, **parts), secret=True)  # type: ignore[arg-type]


def read_state(path: Path) -> ServerState:
    """The state at `path`; ConfigError, with the path, when it is damaged or not one of this fl_dp's."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            header: dict[str, Any] = json.loads(archive[_HEADER].tobytes())
            _check_version(path, header)
            names = [name for name in archive.files if name != _HEADER]
            arrays = {name.removeprefix(_ARRAY): archive[name] for name in names}
        state = _state(header, arrays)
        state.last_report()  # a line that is no report is noticed here, before anything is asked of a client
        return state
    except ConfigError:
        raise
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise ConfigError(
            f"{path}: damaged, or not the state of a run ({type(error).__name__}); it cannot be resumed."
        ) from None


def _check_version(path: Path, header: Mapping[str, Any]) -> None:
    if header["version"] != _VERSION:
        raise ConfigError(
            f"{path}: is of format {header['version']}, this fl_dp reads {_VERSION}; resume the run with the "
            "fl_dp that started it."
        )


def _state(header: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> ServerState:
    return ServerState(
        run=header["run"],
        settings=header["settings"],
        rounds=header["rounds"],
        seconds=header["seconds"],
        line=header["line"],
        secret=bytes.fromhex(header["secret"]),
        members=[member_of(row) for row in header["members"]],
        heard=frozenset(header["heard"]),
        arrays=arrays,
    )


def _report(line: Mapping[str, Any]) -> RoundReport:
    """The report that the line was made of; where JSON has null for want of infinity, an epsilon is that."""
    clients = {name: ClientRound(**_with_epsilons(one)) for name, one in line["clients"].items()}
    together = _with_epsilons(line["federation"])
    names = {key: tuple(together[key]) for key in ("accountants", "running_out")}
    federation = FederationBudget(**{**together, **names})
    return RoundReport(**{**_with_epsilons(line), "clients": clients, "federation": federation})


def _with_epsilons(fields: Mapping[str, Any]) -> dict[str, Any]:
    epsilons = {"epsilon", "largest", "median", "least"}
    return {key: math.inf if value is None and key in epsilons else value for key, value in fields.items()}
