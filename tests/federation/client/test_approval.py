"""No run is paid for before its operator has said yes; a round that waits costs nothing."""

import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from federation.client.sites import PLAN, Site

from fl_dp.errors import ConfigError
from fl_dp.federation.client.approval import (
    REFUSED,
    WAITS,
    _what,
    approvals_folder,
    give_answer,
    pending,
)
from fl_dp.records import Refusal, RoundPlan


class Asked(Site):
    """A site whose operator is asked."""

    def __init__(self, folder: Path, wait: float = 1e-9, **settings: bool) -> None:
        super().__init__(folder, approve=wait, **settings)
        self.folder = approvals_folder(self.config.ledger)

    def question(self, plan: RoundPlan = PLAN) -> tuple[str, ...]:
        """What the operator is asked for a round that waits."""
        assert self.train(plan) == Refusal("declined", WAITS)
        (question,) = pending(self.folder)
        return question.words

    def say(self, *, yes: bool) -> str:
        """The operator's word to the question; its id."""
        (question,) = pending(self.folder)
        give_answer(self.folder, question.id, yes=yes)
        return question.id


@pytest.fixture
def site(tmp_path: Path) -> Asked:
    return Asked(tmp_path)


def test_a_round_waits_and_costs_nothing(site: Asked) -> None:
    assert site.question() == site.question(replace(PLAN, server_round=2))
    assert site.register().spent == ()


def test_the_question_states_the_plan_and_its_cost(site: Asked) -> None:
    asks, each, cost = site.question()
    assert asks.startswith("run run-1 asks client hospital to train linear with loss cross-entropy on digits")
    assert "3 steps of about 64 of " in each
    assert "noise multiplier 1.5, clipping bound 1 (abadi), assuming steady rows" in each
    site.say(yes=True)
    update = site.train()
    after = float(cost.split("is spent, ")[1].split()[0])
    assert after - 0.01 <= update.epsilon <= after
    assert cost.startswith("cost: epsilon 0.00 of 3 is spent")
    assert "at delta 1e-05, by rdp" in cost
    assert int(cost.split("of which ")[1].split()[0]) >= 1


@pytest.mark.parametrize(
    ("task", "words"), [("", "linear with loss cross-entropy"), ("mine.py", "its own task 12ab")]
)
def test_a_schemas_digest_does_not_hide_the_model(task: str, words: str) -> None:
    client = SimpleNamespace(settings=SimpleNamespace(task=task))
    assert _what(SimpleNamespace(plan=replace(PLAN, task="12ab"), client=client)) == words


def test_without_protection_and_how_gradients_are_clipped_it_says_so(tmp_path: Path) -> None:
    site = Asked(tmp_path, **{"allow-unprotected": True})
    plan = replace(PLAN, private=False, noise_multiplier=0.0)
    assert site.question(plan)[-1].startswith("NOT PRIVATE: no protection")
    site.say(yes=False)
    asked = site.question(replace(PLAN, clipping="automatic"))
    assert "clipping bound 1 (automatic), assuming steady rows" in asked[1]


def test_yes_holds_for_the_run_and_for_nothing_else(site: Asked) -> None:
    site.question()
    site.say(yes=True)
    assert site.train().steps == 3
    assert site.train(replace(PLAN, server_round=2, learning_rate=0.1)).steps == 3
    for changes in ({"run": "run-2"}, {"max_grad_norm": 2.0}, {"clipping": "automatic"}, {"steps": 4}):
        assert site.train(replace(PLAN, server_round=3, **changes)) == Refusal("declined", WAITS)
    assert sum(entry.steps for entry in site.register().spent) == 6


def test_no_server_can_find_two_plans_of_one_id(site: Asked) -> None:
    """Of 64 bits with 2^32 names of a run, of 128 with 2^64: one would be approved, and the other trained."""
    site.question()
    assert len(bytes.fromhex(site.say(yes=True))) >= 32


def test_no_is_an_answer_and_may_be_replaced(site: Asked) -> None:
    site.question()
    question = site.say(yes=False)
    assert site.train() == Refusal("declined", REFUSED)
    assert pending(site.folder) == []
    give_answer(site.folder, question, yes=True)
    assert site.train().steps == 3
    with pytest.raises(ConfigError, match="nothing: no question in"):
        give_answer(site.folder, "nothing", yes=True)


def test_a_round_waits_as_long_as_its_operator_lets_it(tmp_path: Path) -> None:
    site = Asked(tmp_path, wait=60.0)

    def say_yes() -> None:
        while not pending(site.folder):
            time.sleep(0.01)
        site.say(yes=True)

    operator = threading.Thread(target=say_yes)
    operator.start()
    assert site.train().steps == 3
    operator.join()


def test_plans_that_the_policy_declines_are_never_asked(site: Asked) -> None:
    assert "clipping bound" in site.train(replace(PLAN, max_grad_norm=1e13)).reason
    assert not site.folder.exists()


def test_only_the_owner_can_read_questions_and_answers_and_a_damaged_one_is_named(site: Asked) -> None:
    site.question()
    site.say(yes=True)
    assert site.folder.stat().st_mode & 0o777 == 0o700
    assert [file.stat().st_mode & 0o777 for file in site.folder.iterdir()] == [0o600, 0o600]
    for text in ("{", "[]", '{"words": 3}', '{"words": [3]}'):
        (site.folder / "cd.json").write_text(text)
        with pytest.raises(ConfigError, match=r"cd\.json: "):
            pending(site.folder)
