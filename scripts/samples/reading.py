"""What this checkout reads in the samples of a version, as JSON, to be compared with what was read once."""

import copy
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fl_dp.accounting.ledger.export import check_continues, read_export
from fl_dp.accounting.ledger.hash_chain import head
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.ledger.requests import Reservation, ReservationRequest
from fl_dp.api.result import Result, load_run
from fl_dp.cli.client_settings import own_settings
from fl_dp.config.files import read_json
from fl_dp.config.run import RunConfig
from fl_dp.federation.client.journal import FOLDER as JOURNAL
from fl_dp.federation.client.journal import read_journal
from fl_dp.federation.client.kept_states import FOLDER as KEPT
from fl_dp.federation.client.kept_states import KeptStates
from fl_dp.federation.server.state import STATE
from fl_dp.federation.server.state import read_state as read_server_state
from fl_dp.kits.kit import ServerKit, SiteKit
from fl_dp.kits.roster import Roster, read_join_request
from fl_dp.launch.ledger_place import named_ledger
from fl_dp.launch.resumption import Launch, check_begun, check_unfinished
from fl_dp.models.start import load_start
from fl_dp.reporting.ledger_report import account_reports
from fl_dp.reporting.reports import strict_json
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.simulation.actor.keys import kept_secret
from fl_dp.training.kept import read_state as read_kept_state
from fl_dp.verify.check import Evidence, Outcome, checked
from fl_dp.verify.verdict import verdict

Json = dict[str, Any]


def configs(folder: Path) -> Json:
    """Every key of what was written by hand, or by `fl-dp new`. A ledger's path is of this machine."""
    found = {name: RunConfig.from_toml(folder / name).to_flat() for name in ("run.toml", "every-key.toml")}
    for site in ("north", "south"):
        own = own_settings(folder / f"{site}.toml", {}, [], Path("ledger"), site)
        found[site] = {key: value for key, value in own.to_flat().items() if key != "ledger"}
    return found


def kits(folder: Path) -> Json:
    """Of all kits whose they are, and the roster that they believe; it depends on the date."""
    server = ServerKit.load(folder / "provisioned" / "server")
    found: Json = {"server": server.key.public, "roster": asdict(server.roster)}
    for site in ("north", "south"):
        kit = SiteKit.load(folder / site)
        asked = read_join_request(folder / site / f"{site}.join.json")
        found[site] = {"name": kit.name, "key": kit.key.public, "asked": asdict(asked)}
        found[site]["same roster"] = kit.roster == server.roster
    return found


def ledgers(folder: Path) -> Json:
    return {site.name: _ledger(site) | _history(site) for site in sorted(folder.iterdir())}


def every_entry(folder: Path) -> Json:
    return _ledger(folder)


def deployed(folder: Path) -> Json:
    """Verified with its sites' ledgers and the roster that they were given."""
    beside = folder.parent
    paths = tuple(named_ledger(site) for site in sorted((beside / "ledgers").iterdir()))
    roster = Roster.read(beside / "kits" / "provisioned" / "roster.json")
    return _run(load_run(folder)) | _verified(Evidence(RunFolder(folder), roster, paths))


def simulated(folder: Path) -> Json:
    evidence = Evidence(RunFolder(folder), None, (named_ledger(folder),))
    return _run(load_run(folder)) | _verified(evidence) | {"ledger": _ledger(folder)}


def interrupted(folder: Path) -> Json:
    """What resuming goes on from, up to the moment in which it would start Ray."""
    run = RunFolder(folder)
    check_begun(run)
    check_unfinished(run)
    launch, state = Launch.read(run), read_server_state(folder / STATE)
    kept, report = KeptStates(run.clients / KEPT), state.last_report()
    return simulated(folder) | {
        "launch": {"engine": launch.engine, "ledgers": str(launch.ledgers.relative_to(folder))},
        "state": {
            "run": state.run, "origin": state.origin, "rounds": state.rounds, "numerics": state.numerics,
            "secret": state.secret.hex(), "registered": sorted(state.registered), "started": state.started,
            "clients": {one.name: asdict(one) for one in state.clients},
            "arrays": {name: _numbers(torch.from_numpy(one)) for name, one in state.arrays.items()},
            "report": report.to_dict() if report else None,
        },
        "secret": kept_secret(run.clients / "secret").hex(),
        "kept": {one.name: _kept(read_kept_state(kept.last(one.name))) for one in state.clients},
    }  # fmt: skip


def models(folder: Path) -> Json:
    """The answers of each form of the exported model to the same inputs."""
    result = load_run(folder.parent / "deployed")
    found: Json = {"card": read_json(folder / "card.json"), "run": _answers(result.model)}
    for ending in ("pt", "safetensors"):
        started = copy.deepcopy(result.model)
        nn.init.zeros_(next(started.parameters()))
        load_start(started, str(folder / f"model.{ending}"))
        found[ending] = _answers(started)
    return found | {"onnx": _onnx_answers(folder / "model.onnx")}


READERS: dict[str, Callable[[Path], Json]] = {
    "config": configs, "kits": kits, "ledgers": ledgers, "every-entry": every_entry, "deployed": deployed,
    "simulated": simulated, "interrupted": interrupted, "models": models,
}  # fmt: skip


def read(samples: Path, kind: str) -> Json:
    """What stands in one of the folders of a version's samples, in JSON's own types; it may write there."""
    found: Json = strict_json(READERS[kind](samples / kind))
    return found


def _ledger(path: Path) -> Json:
    """As `fl-dp ledger show --json` has it, with the payment keys. LedgerError for an export of another."""
    file = named_ledger(path)
    with Ledger.open_existing(file) as ledger:
        rows, accounts = ledger.rows(), ledger.accounts()
        found = [report.to_dict() for report in account_reports(accounts)]
        requests = _repeatable(ledger)
        paid = ledger.reserve_all([request for _, request in requests])
    if (export := path / "export.json").exists():
        check_continues(file, rows, read_export(export))
    keys = {
        str(number): one.key.hex() if isinstance(one, Reservation) else "none"
        for (number, _), one in zip(requests, paid, strict=True)
    }
    return {"entries": len(rows), "head": head(rows), "accounts": found, "keys": keys}


def _repeatable(ledger: Ledger) -> list[tuple[int, ReservationRequest]]:
    """Rounds that may be asked for again without being paid for, by the number of their reservation."""
    return [
        (
            paid.id,
            ReservationRequest(
                account.dataset, paid.run, paid.server_round, paid.entry, None, paid.inputs
            ),
        )
        for account in ledger.accounts()
        if account.retired is None
        for paid in account.rounds
        if paid.inputs
    ]  # fmt: skip


def _history(site: Path) -> Json:
    lines = read_journal(site / JOURNAL)
    return {"journal": [[line.event, line.round, line.total, line.after] for line in lines]}


def _run(result: Result) -> Json:
    columns = ("round", "epsilon", "accuracy", "loss", "trained")
    return {
        "settings": {key: value for key, value in result.settings.to_flat().items() if key != "out"},
        "summary": dict(result.summary),
        "rounds": {name: [float(one) for one in result.rounds[name]] for name in columns},
        "budgets": [str(client) for client in result.budgets["client"]],
        "description": result.description.to_dict(),
        "answers": _answers(result.model),
    }


def _verified(evidence: Evidence) -> Json:
    """The verdict's first words, and what each check comes to; notes may depend on what is installed."""
    results = list(checked(evidence))
    outcomes = {
        one.name: sorted({str(finding.outcome) for finding in one.findings} - {Outcome.NOTE})
        for one in results
    }
    words = verdict(results, evidence)
    return {"verdict": words.partition(":")[0], "checks": outcomes}


def _inputs() -> Tensor:
    """Two made-up images of 8 x 8, as those of digits are."""
    return torch.linspace(-1.0, 1.0, 128).reshape(2, 1, 8, 8)


@torch.no_grad()
def _answers(model: nn.Module) -> list[list[float]]:
    found: list[list[float]] = model(_inputs()).tolist()
    return found


def _onnx_answers(file: Path) -> list[list[float]]:
    import onnxruntime  # type: ignore[import-untyped]

    session = onnxruntime.InferenceSession(str(file))
    (found,) = session.run(None, {session.get_inputs()[0].name: _inputs().numpy()})
    answers: list[list[float]] = found.tolist()
    return answers


def _numbers(tensor: Tensor) -> Json:
    return {"shape": list(tensor.shape), "sum": tensor.double().sum().item()}


def _kept(part: Any) -> Any:
    """What a client keeps between rounds, tensors as `_numbers`; keys as JSON has them."""
    if isinstance(part, dict):
        return {str(key): _kept(one) for key, one in part.items()}
    if isinstance(part, list):
        return [_kept(one) for one in part]
    return _numbers(part) if isinstance(part, Tensor) else part
