"""The last line, and lines that fit a terminal."""

from verify.made_run import MadeRun

from fl_dp.verify.check import Evidence, Finding, Found, Outcome
from fl_dp.verify.verdict import UNSIGNED, agrees, in_words, unsigned, verdict


def result(*outcomes: Outcome, signed: dict[str, bool] | None = None) -> Found:
    return Found("a check", signed or {}, [Finding(one, "words " * 30) for one in outcomes])


def test_one_thing_that_differs_is_the_verdict(untouched: MadeRun) -> None:
    results = [result(Outcome.AGREES, signed={"north": True, "south": True}), result(Outcome.DIFFERS)]
    assert not agrees(results)
    assert verdict(results, Evidence(untouched.files)).startswith("DIFFERS: 1 thing above does not agree")


def test_authentic_is_only_who_has_signed(untouched: MadeRun) -> None:
    evidence = Evidence(untouched.files, untouched.roster)
    for signed, words, listed in (
        ({"north": True, "south": True}, "authentic: every client's own site", UNSIGNED),
        ({"north": True, "south": False}, "authentic for 1 client by the authority's roster", UNSIGNED),
        ({"north": False}, "consistent, not authenticated", ()),
        ({}, "consistent, not authenticated", ()),
    ):
        results = [result(Outcome.AGREES, signed=signed)]
        assert verdict(results, evidence).startswith(words)
        assert unsigned(results, evidence) == tuple(listed)
        assert len(verdict(results, evidence)) < 300
    assert unsigned([result(Outcome.DIFFERS)], evidence) == ()


def test_nothing_is_claimed_where_nothing_was_checked(untouched: MadeRun) -> None:
    for outcome in (Outcome.NOT_GIVEN, Outcome.NOTE):
        assert verdict([result(outcome)], Evidence(untouched.files)).startswith("Nothing could be checked")
        assert agrees([result(outcome)])


def test_lines_are_folded_for_a_terminal() -> None:
    wide = list(in_words([result(Outcome.AGREES, Outcome.NOTE)]))
    folded = list(in_words([result(Outcome.AGREES, Outcome.NOTE)], width=80))
    assert len(wide) == 2
    assert len(folded) > 4
    assert all(len(line) <= 80 for line in folded)
    assert ["a check" in line for line in (wide[0], wide[1], folded[0])] == [True, True, True]
    assert [line.split()[0] for line in (wide[0], wide[1], folded[0])] == ["agrees", "note", "agrees"]


def test_without_a_summary_signatures_make_nothing_authentic(made_run: MadeRun) -> None:
    made_run.files.summary.unlink()
    evidence = Evidence(made_run.files, made_run.roster)
    results = [result(Outcome.AGREES, signed={"north": True})]
    assert verdict(results, evidence).startswith("consistent, not authenticated")
