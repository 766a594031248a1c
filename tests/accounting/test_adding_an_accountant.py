"""Adding an accountant takes one file: it plans at once, and holds no budget unless it is proven and ours."""

import json
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from fl_dp import choices
from fl_dp.accounting import accountant
from fl_dp.accounting.accountant import Accountant, check_holds_budgets
from fl_dp.accounting.budget import Budget
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.records import Entry

APPROXIMATE = '''
"""Epsilon by the central limit theorem (Bu, Dong, Long, Su 2020): an approximation, often too small."""

import math

from fl_dp.accounting.accountant import Accountant
from fl_dp.records import Entry


def _epsilon(entries: tuple[Entry, ...], delta: float) -> float:
    from dp_accounting import get_epsilon_gaussian

    mu = math.sqrt(sum(e.steps * e.sample_rate**2 * math.expm1(e.noise_multiplier**-2) for e in entries))
    return get_epsilon_gaussian(1 / mu, delta)


ACCOUNTANT = Accountant(_epsilon, upper_bound=False)
'''
PLAN = ["--records", "10000", "--batch-size", "256", "--steps", "100", "--noise-multiplier", "2"]
COMMAND = "import sys; from fl_dp.cli.main import main; main()"


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory, copy_package: Any) -> Any:
    """A copy of the package, with one file more."""
    copy = copy_package(tmp_path_factory.mktemp("copy"))
    copy.add("accounting/accountants/newcomer.py", APPROXIMATE)
    return copy


def test_it_plans_and_says_what_its_epsilon_is_worth(copy: Any) -> None:
    words = ["budget", *PLAN, "--accountant", "newcomer"]
    ended = copy.run(COMMAND, *words, "--json")
    assert ended.returncode == 0, ended.stderr
    answer = json.loads(ended.stdout)
    assert (answer["accountant"], answer["upper_bound"]) == ("newcomer", False)
    rate = 256 / 10000
    assert 0 < answer["epsilon"] < compute_epsilon([Entry(rate, 2.0, 100)], 1e-5)  # as the issue has seen it
    shown = copy.run(COMMAND, *words).stdout
    assert "by newcomer" in shown
    assert "no proven upper bound" in shown


def test_it_is_listed_and_holds_no_budget(copy: Any) -> None:
    code = """
from fl_dp.accounting.accountant import check_holds_budgets
from fl_dp.accounting.budget import Budget
from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.federation.client.profile import profile_of
from fl_dp.federation.wire.messages import profile_from_content, profile_to_content
from fl_dp.launch.preflight import check_names
from fl_dp.privacy_engine.settings import chosen_accountant
from fl_dp.records import ClientProfile

config = ClientConfig(client="a", ledger="x", accountant="newcomer")
profile = ClientProfile("a", 100, 3.0, 1e-5, (), "newcomer")
for ask in (
    lambda: Budget(3.0, 1e-5, "newcomer"),
    lambda: check_names(RunConfig(accountant="newcomer")),
    lambda: profile_of(config, 100, (), "proven", 0),
    lambda: profile_from_content(profile_to_content(profile)),
    lambda: chosen_accountant("newcomer", None),
    lambda: RunConfig(accountant="no-such-accountant"),
):
    try:
        ask()
    except ConfigError as error:
        print(error)
"""
    ended = copy.run(code)
    assert ended.returncode == 0, ended.stderr
    *refusals, unknown = ended.stdout.splitlines()
    assert len(refusals) == 5
    for refusal in refusals:
        assert "accountant = 'newcomer': its epsilon is no proven upper bound" in refusal
        holders = refusal.partition("; take ")[2]
        assert "pld" in holders
        assert "newcomer" not in holders
    assert "expected newcomer or " in unknown


def test_a_client_and_a_run_are_refused_before_anything_starts(copy: Any) -> None:
    (copy.folder / "run.toml").write_text('accountant = "newcomer"\n')
    ended = copy.run(COMMAND, "run", "--config", "run.toml", "--simulate")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "accountant = 'newcomer': its epsilon is no proven upper bound" in ended.stderr
    own = 'accountant = "newcomer"\ndata = "digits"\nledger = "ledger.sqlite"\n'
    (copy.folder / "client.toml").write_text(own)
    code = "from fl_dp.cli.client import main; main()"
    ended = copy.run(code, "--config", "client.toml")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "accountant = 'newcomer': its epsilon is no proven upper bound" in ended.stderr
    assert not (copy.folder / "ledger.sqlite").exists()


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> str:
    """Another package's accountant, which says of itself that it is an upper bound."""
    entry = EntryPoint("foreigner", f"{__name__}:FOREIGN", "fl_dp.accountants")
    monkeypatch.setattr(choices, "entry_points", lambda group: [entry] if group == entry.group else [])
    return entry.name


FOREIGN = Accountant(lambda entries, delta: 0.25, upper_bound=True)


def test_another_packages_accountant_plans_and_holds_no_budget(foreign: str) -> None:
    assert compute_epsilon([Entry(0.1, 1.0, 1)], 1e-5, foreign) == 0.25
    words = "accountant = 'foreigner': another package has brought it"
    for use in (
        lambda: Budget(3.0, 1e-5, foreign),
        lambda: check_holds_budgets(foreign),
        lambda: RunConfig(accountant=foreign),
        lambda: ClientConfig(client="a", ledger="x", accountant=foreign),
    ):
        with pytest.raises(ConfigError, match=words):
            use()


def test_a_refusal_of_another_package_loads_none_of_its_code(
    foreign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server hears the name from a client, whoever that is."""
    monkeypatch.setattr(accountant, "find_accountant", lambda name: pytest.fail(f"{name} was loaded"))
    with pytest.raises(ConfigError, match="another package"):
        check_holds_budgets(foreign)


def test_every_accountant_of_ours_answers_for_itself() -> None:
    for name in choices.ACCOUNTANTS.built_in():
        assert accountant.find_accountant(name).compute((Entry(0.1, 2.0, 10),), 1e-5) > 0.0
