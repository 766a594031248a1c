"""Which accountants hold a budget: our own, and proven. Others plan, and are refused everywhere else."""

from collections.abc import Callable
from importlib.metadata import EntryPoint

import pytest

from fl_dp import choices
from fl_dp.accounting import accountant
from fl_dp.accounting.accountant import Accountant, check_holds_budgets
from fl_dp.accounting.budget import Budget
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.federation.client.budgets import profile_of
from fl_dp.federation.wire.messages import profile_from_content, profile_to_content
from fl_dp.launch.first_checks import check_first
from fl_dp.privacy_engine.settings import chosen_accountant
from fl_dp.records import ClientProfile, Entry

FOREIGN = Accountant(lambda entries, delta: 0.25, upper_bound=True)


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> str:
    """Another package's accountant, which says of itself that it is an upper bound."""
    entry = EntryPoint("foreigner", f"{__name__}:FOREIGN", "fl_dp.accountants")
    monkeypatch.setattr(choices, "entry_points", lambda group: [entry] if group == entry.group else [])
    return entry.name


def test_one_that_is_no_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    unproven = Accountant(lambda entries, delta: 0.25, upper_bound=False)
    found = accountant.find_accountant
    monkeypatch.setattr(
        accountant, "find_accountant", lambda name: unproven if name == "rdp" else found(name)
    )
    with pytest.raises(ConfigError, match=r"'rdp': its epsilon is not a proven upper bound.*; use pld\.$"):
        check_holds_budgets.__wrapped__("rdp")


@pytest.mark.parametrize(
    "use",
    [
        lambda name: Budget(3.0, 1e-5, name),
        lambda name: check_first(RunConfig(accountant=name), clients=False),
        lambda name: profile_of(ClientConfig(client="a", ledger="x", accountant=name), 100, (), "proven", 0),
        lambda name: profile_from_content(profile_to_content(ClientProfile("a", 9, 3.0, 1e-5, (), name))),
        lambda name: chosen_accountant(name, None),
    ],
    ids=["a budget", "a run", "a client", "a message", "an engine"],
)
def test_one_that_there_is_not_is_refused(use: Callable[[str], object]) -> None:
    with pytest.raises(ConfigError, match="prv"):
        use("prv")


def test_another_packages_accountant_plans_and_holds_no_budget(foreign: str) -> None:
    assert compute_epsilon([Entry(0.1, 1.0, 1)], 1e-5, foreign) == 0.25
    words = "accountant = 'foreigner': it comes from another package"
    for use in (
        lambda: Budget(3.0, 1e-5, foreign),
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
