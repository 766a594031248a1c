"""No run is paid for before its operator has said yes; a round that waits costs nothing."""

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from federation.client.sites import PLAN, Site

from fl_dp.errors import ConfigError
from fl_dp.federation.client.approval import REFUSED, WAITS, approvals_folder, give_answer, pending
from fl_dp.records import LocalUpdate, Refusal


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, approve=True, **{"approval-wait": 0.0})


def folder_of(site: Site) -> Path:
    return approvals_folder(site.config.ledger)


def test_a_round_waits_and_costs_nothing(site: Site) -> None:
    assert site.train() == Refusal("declined", WAITS)
    assert site.train(replace(PLAN, server_round=2)) == Refusal("declined", WAITS)
    assert site.register().spent == ()
    assert len(pending(folder_of(site))) == 1


def test_the_question_says_what_is_asked_and_what_it_costs(site: Site) -> None:
    site.train()
    (question,) = pending(folder_of(site))
    asks, each, cost = question.words
    assert asks.startswith("run run-1 asks client hospital to train linear with loss cross-entropy on digits")
    assert "3 steps of about 64 of " in each
    assert "noise multiplier 1.5, clipping bound 1, arithmetic assumed" in each
    give_answer(folder_of(site), question.id, yes=True)
    update = site.train()
    assert isinstance(update, LocalUpdate)
    after = float(cost.split("is spent, ")[1].split()[0])
    assert after - 0.01 <= update.epsilon <= after
    assert cost.startswith("cost: epsilon 0.00 of 3 is spent")
    assert "at delta 1e-05, by rdp" in cost
    assert int(cost.split("by rdp; ")[1].split()[0]) >= 1


def test_yes_holds_for_the_run_and_for_nothing_else(site: Site) -> None:
    site.train()
    give_answer(folder_of(site), pending(folder_of(site))[0].id, yes=True)
    assert isinstance(site.train(), LocalUpdate)
    second = replace(PLAN, server_round=2, learning_rate=0.1)
    assert isinstance(site.train(second), LocalUpdate)
    for changes in ({"run": "run-2"}, {"max_grad_norm": 2.0}, {"steps": 4}):
        assert site.train(replace(PLAN, server_round=3, **changes)) == Refusal("declined", WAITS)
    assert sum(entry.steps for entry in site.register().spent) == 6


def test_no_is_an_answer_and_may_be_replaced(site: Site) -> None:
    site.train()
    (question,) = pending(folder_of(site))
    give_answer(folder_of(site), question.id, yes=False)
    assert site.train() == Refusal("declined", REFUSED)
    assert pending(folder_of(site)) == []
    give_answer(folder_of(site), question.id, yes=True)
    assert isinstance(site.train(), LocalUpdate)
    with pytest.raises(ConfigError, match="nothing: nothing of that id is asked in"):
        give_answer(folder_of(site), "nothing", yes=True)


def test_a_round_waits_as_long_as_its_operator_lets_it(tmp_path: Path) -> None:
    site = Site(tmp_path, approve=True, **{"approval-wait": 60.0})
    folder = folder_of(site)

    def say_yes() -> None:
        while not pending(folder):
            time.sleep(0.02)
        give_answer(folder, pending(folder)[0].id, yes=True)

    operator = threading.Thread(target=say_yes)
    operator.start()
    assert isinstance(site.train(), LocalUpdate)
    operator.join()


def test_without_protection_the_question_says_so(tmp_path: Path) -> None:
    site = Site(tmp_path, approve=True, **{"approval-wait": 0.0, "allow-unprotected": True})
    assert site.train(replace(PLAN, private=False, noise_multiplier=0.0)) == Refusal("declined", WAITS)
    assert pending(folder_of(site))[0].words[-1].startswith("NOT PRIVATE: no protection")


def test_what_the_policy_declines_is_never_asked(site: Site) -> None:
    refusal = site.train(replace(PLAN, max_grad_norm=1e13))
    assert isinstance(refusal, Refusal)
    assert "clipping bound" in refusal.reason
    assert not folder_of(site).exists()


def test_questions_and_answers_are_their_owners_alone_and_a_damaged_one_is_named(site: Site) -> None:
    site.train()
    folder = folder_of(site)
    give_answer(folder, pending(folder)[0].id, yes=True)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [file.stat().st_mode & 0o777 for file in folder.iterdir()] == [0o600, 0o600]
    for text in ("{", "[]", '{"words": 3}', '{"words": [3]}'):
        (folder / "cd.json").write_text(text)
        with pytest.raises(ConfigError, match=r"cd\.json: "):
            pending(folder)


def test_no_words_of_a_plan_can_push_the_question_off_the_screen(site: Site) -> None:
    answer = site.train(replace(PLAN, adaptive_clipping="quantile:0.5" + "\n" * 500))
    assert isinstance(answer, Refusal)
    assert "adaptive-clipping" in answer.reason
    assert pending(folder_of(site)) == []


def test_a_bound_that_follows_is_said_to_do_so(site: Site) -> None:
    site.train(replace(PLAN, adaptive_clipping="quantile:0.5"))
    (question,) = pending(folder_of(site))
    assert (
        "clipping bound 1 at first, then quantile:0.5 by a noised count that this noise multiplier pays for, "
        "arithmetic assumed" in question.words[1]
    )
