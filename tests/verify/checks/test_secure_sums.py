"""A run of secure sums: both epsilons are computed again; neither can be left out, lowered or exchanged."""

from pathlib import Path

import pytest
from verify.made_run import DELTA, STEPS, Json, MadeRun, add_up, alone, epsilon, run_in

from fl_dp.accounting.alone import alone_of
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.records import Entry
from fl_dp.verify.claims import alone as counted_alone

SHARES = 3


@pytest.fixture(scope="module")
def of_sums(tmp_path_factory: pytest.TempPathFactory) -> MadeRun:
    """Not to be changed."""
    return run_in(tmp_path_factory.mktemp("sums"), SHARES)


@pytest.fixture
def run(of_sums: MadeRun, tmp_path: Path) -> MadeRun:
    return of_sums.copy(tmp_path / "run")


def what_differs(run: MadeRun, **options: bool) -> str:
    found = run.differs(**options)
    return " | ".join(f"{name}: {one.what} ({one.where})" for name in found for one in found[name])


def no_word_of_authority(run: MadeRun) -> list[str]:
    """What differs of a folder in which nobody has stated anything."""
    run.files.statements.unlink(missing_ok=True)
    return what_differs(run).split(" | ")


def test_an_honest_run_of_secure_sums_is_confirmed(run: MadeRun) -> None:
    assert epsilon(STEPS) < (alone(STEPS, SHARES) or 0.0)
    assert what_differs(run, roster=True, ledgers=True) == ""


def test_a_lowered_epsilon_alone_is_found(run: MadeRun) -> None:
    def lower(found: Json) -> None:
        for one in found["clients"].values():
            one["epsilon_alone"] *= 0.9
        found["federation"]["epsilon_alone"] *= 0.9

    run.change_both(lower)
    words = what_differs(run)
    assert f"cost {alone(STEPS, SHARES):.2f}" in words
    assert "statements: epsilon alone" in words


def test_an_epsilon_alone_that_was_taken_out_is_missed(run: MadeRun) -> None:
    def take_out(found: Json) -> None:
        for one in (*found["clients"].values(), found["federation"]):
            one.pop("epsilon_alone", None)

    run.change_both(take_out)
    words = what_differs(run)
    assert "does not say what holds if their assumption fails" in words
    assert "statements: epsilon alone" in words


def test_the_federations_alone_cannot_be_left_out_or_lowered_by_itself(run: MadeRun) -> None:
    run.change_both(lambda found: found["federation"].update(epsilon_alone=0.1))
    assert "the federation's alone epsilon is given as 0.1" in what_differs(run)
    run.change_both(lambda found: found["federation"].pop("epsilon_alone"))
    assert "the federation's alone epsilon is given as 0" in what_differs(run)


def test_shares_that_were_taken_out_of_charges_are_missed(run: MadeRun) -> None:
    """Without shares the epsilon alone would look like the other one. Ledgers and statements know better."""

    def take_out(found: Json) -> None:
        for one in found["clients"].values():
            one["epsilon_alone"] = one["epsilon"]
            for entry in one["charges"]:
                entry.pop("shares", None)
        found["federation"]["epsilon_alone"] = found["epsilon"]

    run.change_both(take_out)
    found = run.differs(ledgers=True)
    assert {"files", "statements", "ledgers"} <= found.keys()


def lowered(found: Json, shares: int) -> None:
    """Every epsilon as the charges then have it, in the files of a forger who leaves nothing out."""
    for one in found["clients"].values():
        for entry in (one, *one["charges"]):
            entry["shares"] = shares
        spent = [Entry.from_dict(entry) for entry in one["charges"]]
        one["epsilon"] = compute_epsilon(spent, DELTA)
        one["epsilon_alone"] = compute_epsilon(alone_of(spent), DELTA)
        one.update({"planned_epsilon": one["epsilon"]} if "planned_epsilon" in one else {})
    add_up(found)
    found["federation"]["epsilon_alone"] = max(one["epsilon_alone"] for one in found["clients"].values())


@pytest.mark.parametrize("shares", [1, 2])
def test_fewer_shares_everywhere_contradict_the_sums_that_were_opened(shares: int, run: MadeRun) -> None:
    """Nothing else is left that could: charges and epsilons agree, and the statements are gone."""
    run.change_both(lambda found: lowered(found, shares))
    words = no_word_of_authority(run)
    assert words
    said = f"files: shares {shares} of its noise, and the sum of this round has others"
    assert all(said in one for one in words)


def test_sums_in_the_clear_cannot_be_said_to_have_been_masked(run: MadeRun) -> None:
    run.change_summary(lambda summary: summary.update(masked=True))
    assert "files: masked differs in summary.json (summary.json)" in no_word_of_authority(run)


def test_sums_in_the_clear_are_noted_and_masked_ones_are_not(run: MadeRun) -> None:
    def noted() -> bool:
        return any("no masks were used: whoever ran" in one.what for one in run.check()["files"].findings)

    assert noted()
    run.change_rounds(lambda line: line["secure_sum"].update(masked=True))
    assert not noted()


def test_a_lost_round_has_paid_and_opened_nothing(run: MadeRun) -> None:
    def lose(line: Json) -> None:
        if line["round"] == 1:
            line.pop("secure_sum")
            line["lost"] = "1 valid update, 4 needed"

    run.change_rounds(lose)
    assert "files" not in run.differs()


def test_what_counts_alone_is_what_fl_dp_counts() -> None:
    entries = (Entry(0.1, 2.0, 5), Entry(0.1, 4.0, 3, 2), Entry(0.1, 4.0, 3, 4))
    assert counted_alone(entries) == alone_of(entries) == (Entry(0.1, 2.0, 11),)
