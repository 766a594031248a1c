"""Files of releases, tests/samples, are read as on the day when they were made, or declined by name."""

import json
import math
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.export import check_continues, read_export
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.api.card import card_of
from fl_dp.api.result import load_run
from fl_dp.errors import BudgetExhaustedError, ConfigError, LedgerError
from fl_dp.federation.server.state import STATE, read_state
from fl_dp.kits.kit import ServerKit, SiteKit, accept
from fl_dp.kits.provision import Wishes, provision
from fl_dp.launch.ledger_place import named_ledger
from fl_dp.launch.resumption import kept_config
from fl_dp.records import NUMERICS, REFUTED, STEADY_ROWS, Entry
from fl_dp.reporting.ledger_report import account_reports
from fl_dp.reporting.ledger_table import print_accounts
from fl_dp.reporting.page.render import render_page
from fl_dp.reporting.refuted import ADVICE
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.verify.check import Evidence, Outcome, checked
from fl_dp.verify.ledger_file import read_ledger
from fl_dp.verify.verdict import verdict
from scripts.samples.__main__ import EXPECTED, digest
from scripts.samples.private import private_copy
from scripts.samples.reading import READERS, read
from scripts.samples.surface import surface

SAMPLES = Path(__file__).parent / "samples"
VERSIONS = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir() and path.name != "ledgers")
EXPECTATIONS = {name: json.loads((SAMPLES / name / EXPECTED).read_text()) for name in VERSIONS}
TOLERANCE = 1e-5  # of numbers that are computed anew: epsilons, and a model's answers in float32
# What is otherwise now, by version and kind: a config without an arithmetic meant one that was refuted.
OTHERWISE = {("0.1.0", "config"): {"arithmetic": (REFUTED, STEADY_ROWS)}}
MERGED = ("charges", "config", "model", "page", "protection", "rounds")  # checks: what stays is in `files`
# By version: names, options, and keys with their defaults. What went is in CHANGELOG.md under 2.0.0.
GONE: dict[str, set[str]] = {
    "1.0.0": {
        "fl-dp audit --own-model",
        "fl-dp audit --plot",
        "fl-dp budget ",
        "fl-dp budget --accountant",
        "fl-dp budget --allocation",
        "fl-dp budget --batch-size",
        "fl-dp budget --clients-per-person",
        "fl-dp budget --colluders",
        "fl-dp budget --delta",
        "fl-dp budget --dropouts",
        "fl-dp budget --epsilon",
        "fl-dp budget --json",
        "fl-dp budget --local-epochs",
        "fl-dp budget --members",
        "fl-dp budget --noise-multiplier",
        "fl-dp budget --records",
        "fl-dp budget --rounds",
        "fl-dp budget --steps",
        "fl-dp budget --then",
        "fl-dp calibrate ",
        "fl-dp calibrate --accountant",
        "fl-dp calibrate --allocation",
        "fl-dp calibrate --batch-size",
        "fl-dp calibrate --clients-per-person",
        "fl-dp calibrate --colluders",
        "fl-dp calibrate --delta",
        "fl-dp calibrate --dropouts",
        "fl-dp calibrate --epsilon",
        "fl-dp calibrate --json",
        "fl-dp calibrate --local-epochs",
        "fl-dp calibrate --members",
        "fl-dp calibrate --records",
        "fl-dp calibrate --rounds",
        "fl-dp calibrate --steps",
        "fl-dp calibrate --then",
        "fl-dp doctor ",
        "fl-dp fine-tune ",
        "fl-dp fine-tune --config",
        "fl-dp fine-tune --expected-batch-size",
        "fl-dp fine-tune --learning-rate",
        "fl-dp fine-tune --ledger",
        "fl-dp fine-tune --local-epochs",
        "fl-dp fine-tune --max-grad-norm",
        "fl-dp fine-tune --noise-multiplier",
        "fl-dp fine-tune --out",
        "fl-dp fine-tune --own",
        "fl-dp fine-tune --set",
        "fl-dp fine-tune --trainable",
        "fl-dp fine-tune model",
        "fl-dp report --csv",
        "fl-dp report runs",
        "fl-dp run --baseline",
        "fl-dp run --vary-mechanism",
        "fl-dp server --log-json",
        "fl-dp server --metrics",
        "fl-dp sweep ",
        "fl-dp sweep --jobs",
        "fl-dp sweep --ledger",
        "fl-dp sweep --out",
        "fl-dp sweep --plan",
        "fl-dp sweep --resume",
        "fl-dp sweep --show",
        "fl-dp sweep --yes",
        "fl-dp sweep file",
        "fl-dp watch ",
        "fl-dp watch --once",
        "fl-dp watch run",
    }
}
LEDGERS = ("ledgers/north", "simulated", "every-entry")


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def samples(version: str, tmp_path: Path) -> Path:
    """A copy of the version's samples, which a test may change."""
    return private_copy(SAMPLES / version, tmp_path / version)


def set_clock(monkeypatch: pytest.MonkeyPatch, now: datetime) -> None:
    """For what looks whether rosters and certificates are over."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return now

    for module in ("certificates", "roster"):
        monkeypatch.setattr(f"fl_dp.kits.{module}.datetime", Clock)


@pytest.fixture
def made(version: str, monkeypatch: pytest.MonkeyPatch) -> datetime:
    """When the samples were made; it is that time again."""
    moment = datetime.fromisoformat(EXPECTATIONS[version]["made"])
    set_clock(monkeypatch, moment)
    return moment


def leaves(found: Any, name: str = "") -> dict[str, Any]:
    """Its numbers and texts, by where they stand, and how long each list is."""
    if isinstance(found, dict):
        return {key: one for part in found for key, one in leaves(found[part], f"{name}.{part}").items()}
    if isinstance(found, list | tuple):
        parts = {str(number): one for number, one in enumerate(found)}
        return {f"{name} length": len(found), **leaves(parts, name)}
    return {name: found}


def same(found: Any, expected: Any) -> bool:
    """Numbers with a point up to TOLERANCE, all else exactly."""
    if isinstance(found, float) and isinstance(expected, float):
        return math.isclose(found, expected, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return type(found) is type(expected) and found == expected


@pytest.mark.parametrize("kind", READERS)
def test_each_kind_is_read_as_it_was(samples: Path, version: str, kind: str, made: datetime) -> None:
    """Other versions may read more, as a new setting or field with its default."""
    if kind not in EXPECTATIONS[version]:
        pytest.skip(f"{version} wrote none")
    found, expected = leaves(read(samples, kind)), leaves(EXPECTATIONS[version][kind])
    for name in [name for name in expected if any(f"checks.{one}." in name for one in MERGED)]:
        del expected[name]
    now = {name: found.get(name, "not there") for name in expected}
    for key, (then, default) in OTHERWISE.get((version, kind), {}).items():
        names = {name for name in expected if name.endswith(f".{key}")}
        assert {(expected.pop(name), now[name]) for name in names} == {(then, default)}
    assert {name: (now[name], then) for name, then in expected.items() if not same(now[name], then)} == {}


def test_what_a_release_offered_stays_or_is_named(version: str) -> None:
    """What is to go is announced first, and a new default has a line in the changelog: docs/stability.md."""
    offered, now = EXPECTATIONS[version].get("surface", {}), surface()
    gone = {one for kind, names in offered.items() for one in set(names) - set(now[kind])}
    assert gone == GONE.get(version, set())


def test_no_sample_was_changed(version: str) -> None:
    files = {path for path in (SAMPLES / version).rglob("*") if path.is_file()}
    digests = {str(path.relative_to(SAMPLES / version)): digest(path) for path in files}
    del digests[EXPECTED]
    assert digests == EXPECTATIONS[version]["files"]


@pytest.mark.parametrize("name", LEDGERS)
def test_what_a_ledger_has_paid_still_counts_and_it_goes_on(samples: Path, name: str) -> None:
    with Ledger.open_existing(named_ledger(samples / name)) as ledger:
        before, account = ledger.rows(), ledger.accounts()[0]
        last = account.last_budget()
        assert last is not None
        with pytest.raises(BudgetExhaustedError):
            ledger.reserve(account.dataset, "a new run", 1, Entry(0.1, 2.0, 3), Budget(0.5, last.delta))
        wider = Budget(last.epsilon + 1.0, last.delta)
        ledger.commit(ledger.reserve(account.dataset, "a new run", 1, Entry(0.1, 2.0, 3), wider))
        assert len(ledger.rows()) == len(before) + 2
        check_continues(ledger.path, ledger.rows(), before)


def test_who_provisions_makes_the_next_roster_and_all_accept_it(samples: Path, made: datetime) -> None:
    kits = samples / "kits"
    roster = provision(Wishes.read(kits / "federation.toml"), kits / "provisioned")
    assert roster.serial == 2
    for site in ("north", "south"):
        accept(kits / site, kits / "provisioned" / "roster.json")
        assert SiteKit.load(kits / site).roster == roster
    assert ServerKit.load(kits / "provisioned" / "server").roster == roster


def test_a_kit_that_is_over_is_declined(
    samples: Path, made: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_clock(monkeypatch, made + timedelta(days=366))
    for load, kit in ((SiteKit.load, "north"), (ServerKit.load, "provisioned/server")):
        with pytest.raises(ConfigError, match=f"the roster ended on {made.year + 1}-"):
            load(samples / "kits" / kit)


def test_an_interrupted_run_may_go_on_or_its_numerics_are_named(samples: Path) -> None:
    folder = samples / "interrupted"
    state, config = read_state(folder / STATE), kept_config(RunFolder(folder))
    if state.numerics == NUMERICS:
        state.check_same(config)
        return
    with pytest.raises(ConfigError, match=f"was started with numerics {state.numerics}, this fl_dp has"):
        state.check_same(config)


def test_an_export_of_a_newer_format_is_declined(samples: Path) -> None:
    """Other formats that have a number have this test beside their own: ledger and state."""
    file = samples / "every-entry" / "export.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": "fl-dp ledger 2"}))
    with pytest.raises(LedgerError, match=r"not an export that this fl_dp can read \(fl-dp ledger 1\)"):
        read_export(file)
    with pytest.raises(
        ConfigError, match=r"has format 'fl-dp ledger 2', and this fl_dp reads 'fl-dp ledger 1'"
    ):
        read_ledger(file)


def test_what_0_1_0_has_paid_is_said_to_be_refuted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it has left agrees, and what it assumed does not hold: docs/advisories.md."""
    folder = private_copy(SAMPLES / "0.1.0", tmp_path / "0.1.0")
    run = RunFolder(folder / "deployed")
    with Ledger.open_existing(named_ledger(folder / "ledgers" / "north")) as ledger:
        print_accounts(account_reports(ledger.accounts()))
    assert f"assumed (refuted): {ADVICE}" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(ConfigError, match="its epsilons count other runs"):
        render_page(run)
    assert card_of(load_run(run.path), {})["guarantee"]["arithmetic"] == "assumed (refuted)"
    evidence = Evidence(run, None, (named_ledger(folder / "ledgers" / "north"),))
    results = list(checked(evidence))
    notes = {one.name: [f.what for f in one.findings if f.outcome is Outcome.NOTE] for one in results}
    assert [sum(ADVICE in what for what in notes[name]) for name in ("epsilons", "statements")] == [2, 2]
    assert any(ADVICE in what for what in notes["ledgers"])
    assert verdict(results, evidence).endswith(f" Some of it was {ADVICE}.")
