"""Chooses the ledger that clients on this machine pay from."""

from dataclasses import dataclass
from pathlib import Path

from fl_dp.accounting.ledger.files import find_ledger, lasting_ledger, ledger_file
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.launch.request import Engine
from fl_dp.launch.resumption import Launch
from fl_dp.reporting.run_folder import RunFolder

NOWHERE = Path("no-ledger")  # in the settings of clients whose run makes a new ledger
_NAME_ONE = "for private data name a lasting ledger: --ledger DIR"
PUBLIC = "for public or synthetic data: --one-run-ledger, or public-data = true"


@dataclass(frozen=True, slots=True)
class LedgerPlace:
    """folder: None for a ledger below the run's folder, made for this run alone. why: the reason, for the
    console.
    """

    folder: Path | None
    why: str

    @property
    def one_run(self) -> bool:
        return self.folder is None

    def within(self, run: RunFolder) -> Path:
        """The folder of the ledger, absolute."""
        return (self.folder or run.ledgers).absolute()

    def line(self, run: RunFolder) -> str:
        """What the run says of its ledger before it trains."""
        shown = self.folder or run.shown / run.ledgers.name
        why = f" ({self.why})" if self.why else ""
        return f"{ledger_words(shown, one_run=self.one_run)}{why}"


def ledger_words(shown: Path, *, one_run: bool) -> str:
    """Where the ledger is, and which runs it counts."""
    if one_run:
        return f"ledger in {shown}, for this run alone: what other runs spend is not counted"
    return f"ledger in {shown}: what other runs have spent there is counted"


def check_one_choice(named: Path | None, *, one_run: bool) -> None:
    """Raise ConfigError if a ledger is named for a run that is to have its own."""
    if named is not None and one_run:
        raise ConfigError(
            f"--ledger {named}: --one-run-ledger asks for a ledger of this run alone; leave one of the "
            "two out."
        )


def ledger_place(
    config: RunConfig, engine: Engine | None, named: Path | None, *, one_run: bool = False
) -> LedgerPlace:
    """named: the folder of --ledger. one_run: --one-run-ledger was given.

    A simulation's operator holds all data and is trying things out. Real clients keep a permanent ledger,
    unless their records are public: known to be, or declared so by public-data, which decides this and
    nothing else.
    """
    if named is not None:
        return LedgerPlace(named, "")
    if engine:
        return LedgerPlace(None, _NAME_ONE)
    if one_run:
        return LedgerPlace(None, "--one-run-ledger")
    if config.public_data:
        return LedgerPlace(None, "public-data = true")
    from fl_dp.federation.client.registration import is_public  # late: PyTorch, for a second

    if is_public(config):
        return LedgerPlace(None, f"these data are public; {_NAME_ONE}")
    return LedgerPlace(lasting_ledger(), f"it lasts; {PUBLIC}")


def check_no_ledger_yet(out: Path | None) -> None:
    """Raise ConfigError if the folder of a new run holds a ledger: it was not made for this run alone."""
    if out is None:
        return
    ledgers = RunFolder(out).ledgers
    if ledger_file(ledgers).exists():
        raise ConfigError(
            f"--out {out}: holds the ledger of another run. Name another folder, or count what was spent "
            f"there: --ledger {ledgers}."
        )


def way_on(run: RunFolder) -> tuple[str, ...]:
    """What can be done when budgets are spent, perhaps by earlier runs; empty for a one-run ledger."""
    if not run.launch.exists() or Launch.read(run).one_run_ledger:
        return ()
    return (
        f"to see what spent them: fl-dp ledger show {run.shown}",
        "to go on: a larger budget, --set epsilon=N. It protects less, and whoever approves the run must "
        f"know that it was raised; {PUBLIC}",
    )


def named_ledger(path: Path) -> Path:
    """See `find_ledger`. The folder may also be a run's: its launch.toml says where the ledgers are."""
    folder = RunFolder(path)
    if folder.launch.exists():
        return find_ledger(path, Launch.read(folder).ledgers)
    return find_ledger(path, *([folder.ledgers] if folder.ledgers.is_dir() else []))
