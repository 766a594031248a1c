"""The server's state between two rounds, in one file, from which a run resumes.

The file is an .npz archive with the arrays of the global model and, under "header", the rest as JSON. It is
written whole or not at all, and nothing in it is ever executed.
"""

import json
import operator
import zipfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fl_dp.accounting.events import beyond
from fl_dp.config.flat import Scalar
from fl_dp.config.run import MAY_CHANGE, RunConfig
from fl_dp.durable_files import write_whole
from fl_dp.errors import ConfigError
from fl_dp.federation.server.accounts_of_tests import AccountOfTests
from fl_dp.federation.server.client_record import ClientRecord, client_of, entry_values
from fl_dp.federation.wire.arrays import NDArray, below
from fl_dp.records import MOST_EPSILON, NUMERICS, REFUTED, Entry
from fl_dp.reporting.reports import (
    ClientRound,
    FederationBudget,
    OpenedSum,
    RoundReport,
    RunCost,
    epsilon_from_json,
)

STATE = "state.npz"
VERSION = 6  # of the header; older versions are converted
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
    and local algorithm keep at the server. started: when the run first started, UTC, ISO 8601; empty if an
    older fl_dp began it. missed: `SilentSites.state`; empty if an older fl_dp wrote it. tests: the sites'
    accounts of test records, by name.
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
    missed: Mapping[str, Collection[int]] = field(default_factory=dict)
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
        "missed": state.missed,
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
            header = _in_this_format(path, header)
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
        missed={
            name: (operator.index(times), operator.index(until))  # TypeError unless an integer
            for name, (times, until) in header.get("missed", {}).items()
        },
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


# Settings added later, with the behaviour before: a state without a key is older than the key.
_ADDED = {
    "loss": "cross-entropy",
    "aggregation": "mean",
    "server-optimizer": "fedavg",
    "server-learning-rate": "auto",
    "arithmetic": REFUTED,
    "task": "",
    "data-name": "",
    "evaluate": "server",
    "metrics": "",
    "learning-rate-schedule": "constant",
    "max-grad-norm-schedule": "constant",
    "noise-multiplier-schedule": "constant",
    "optimizer": "sgd",
    "optimizer-settings": "",
    "optimizer-state": "reset",
    "class-weights": "",
    "precision": "float32",
    "participations": 0,
    "unit": "record",
    "records-per-person": 0,
    "records-chosen": "first",
    "local-algorithm": "fedavg",
    "pull": 0.0,
    "strategy": "",
    "personal": "",
    "max-weight": 0.0,
    "min-updates": 1,
    "malicious-clients": 1,
    "keep-model": "last",
    "average-decay": 0.9,
    "augmentation": "",
    "views": 1,
    "features": "",
    "adaptive-clipping": "",
    "secure-dropouts": 0,
    "secure-colluders": 1,
    "test": 0.0,
    "evaluate-epsilon": 1.0,
    "site-metrics": False,
}
_PROFILE_OF_1 = 10  # values of a client's profile; they and those of its record had no arithmetic at the end
_PROFILE_OF_3 = 11
_NO_SECURE_SUMS = (False, 0.0)  # the values that format 4 added to a profile
_PROFILE_OF_5 = 13


def _in_this_format(path: Path, header: dict[str, Any]) -> dict[str, Any]:
    """The header converted to this format; ConfigError, with what to do, for an unknown format."""
    version = header["version"]
    if version not in (*_STEPS, VERSION):
        raise ConfigError(
            f"{path}: is of format {version}, this fl_dp reads 1 to {VERSION}; resume the run "
            "with the fl_dp that started it."
        )
    for step in range(version, VERSION):
        header = _STEPS[step](header)
    return {**header, "settings": {**_ADDED, **header["settings"]}}


def _from_5(header: dict[str, Any]) -> dict[str, Any]:
    """Nothing was kept of test records: if there were evaluations, each client may have spent all that a site
    can allow.
    """
    settings = {**_ADDED, **header["settings"]}
    evaluated = settings.get("site-metrics-every") and header["rounds"]
    rows = [_row_from_5(row) for row in header["clients"]]
    names = [client_of(row).name for row in rows] if evaluated else []
    tests = {name: AccountOfTests(unheard=1).to_row() for name in names}
    return {**header, "clients": rows, "tests": tests}


def _row_from_5(row: list[Any]) -> list[Any]:
    return [*row[:_PROFILE_OF_5], MOST_EPSILON, *row[_PROFILE_OF_5:]]


def _from_4(header: dict[str, Any]) -> dict[str, Any]:
    """The steps that the run asked for were not kept: all since the first registration count as asked."""
    return {**header, "clients": [_row_from_4(row) for row in header["clients"]]}


def _row_from_4(row: list[Any]) -> list[Any]:
    client = client_of(_row_from_5([*row, []]))
    asked = beyond((*client.spent, *client.unconfirmed), client.before)
    return [*row, list(map(entry_values, asked))]


def _from_3(header: dict[str, Any]) -> dict[str, Any]:
    """Clients had not said whether they take part in secure sums: none does, until it registers again."""
    return {**header, "clients": [_row_from_3(row) for row in header["clients"]]}


def _row_from_3(row: list[Any]) -> list[Any]:
    return [*row[:_PROFILE_OF_3], *_NO_SECURE_SUMS, *row[_PROFILE_OF_3:]]


def _from_2(header: dict[str, Any]) -> dict[str, Any]:
    """What the clients' data had spent before the run was not kept: all counts as this run's."""
    return {**header, "clients": [[*row, []] for row in header["clients"]], "started": ""}


def _from_1(header: dict[str, Any]) -> dict[str, Any]:
    """From 0.1.0: clients were called members, their numbers not shown, and no report named an accountant."""
    line = header["line"] and json.dumps(_line_from_1(header))
    return {
        **header,
        "numerics": 1,
        "origin": header["run"],
        "clients": [_row_from_1(row) for row in header["members"]],
        "registered": header["heard"],
        "line": line,
    }


def _row_from_1(row: list[Any]) -> list[Any]:
    return [*row[:_PROFILE_OF_1], REFUTED, *row[_PROFILE_OF_1:], REFUTED]


def _client_from_1(row: list[Any]) -> ClientRecord:
    return client_of(_row_from_5(_row_from_4(_row_from_3([*_row_from_1(row), []]))))


def _line_from_1(header: dict[str, Any]) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(header["line"])
    accountants = {one.name: one.profile.accountant for one in map(_client_from_1, header["members"])}
    clients = {
        name: {**client, "accountant": accountants[name], "arithmetic": REFUTED, "reported": {}}
        for name, client in line["clients"].items()
    }
    federation = {
        **line["federation"], "accountants": sorted(set(accountants.values())), "arithmetic": REFUTED,
        "unit": "record",
    }  # fmt: skip
    metrics = {} if line["accuracy"] is None else {"accuracy": line["accuracy"]}
    return {**line, "clients": clients, "federation": federation, "metrics": metrics}


_STEPS = {
    1: _from_1,
    2: _from_2,
    3: _from_3,
    4: _from_4,
    5: _from_5,
}  # by format: converts a header to the next one
