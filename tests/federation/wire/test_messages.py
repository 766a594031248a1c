"""What is said is what is heard; what cannot be right is refused in words."""

from dataclasses import replace

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, RecordDict
from local_updates import local_update

from fl_dp.clean_text import LONGEST
from fl_dp.errors import BudgetExhaustedError, CallError, ConfigError, DataError, DeclinedError, LedgerError
from fl_dp.federation.client.payment import refusal_of
from fl_dp.federation.wire import messages
from fl_dp.federation.wire.arrays import decode, encode, specs
from fl_dp.federation.wire.bounds import require_only
from fl_dp.records import ClientProfile, Entry, Refusal, RoundPlan
from fl_dp.schema import encoded

AT_HOME = "its {} cannot be used; its own log says why"
UNEXPECTED = "an unexpected error; its own log says which"
PLAN = RoundPlan("run-1", 3, "linear", 12, 64, 0.5, 0.9, 1.25, 1.0)
SPENT = (Entry(0.1, 1.5, 7), Entry(1e-5, 2.0, 100_000))
PROFILE = ClientProfile("hospital-3", 640, 3.0, 1e-5, SPENT, "pld", retired=2)
ARRAYS = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros((), np.float32)}
UPDATE = local_update(arrays=ARRAYS, spent=SPENT, steps=7, epsilon=0.5, delta=1e-5)


def over_the_wire(content: RecordDict) -> RecordDict:
    """Every record serialised and read again, as Flower does."""
    copy = RecordDict()
    for name, record in content.items():
        children = getattr(record, "children", None) or {}
        copy[name] = type(record).inflate(record.deflate(), children or None)
    return copy


def test_names_that_nobody_knows_are_cut_before_they_reach_a_log():
    """Twenty of a million letters each would push all older lines out of it."""
    content, long = messages.plan_to_content(PLAN, encode(ARRAYS)), "x" * 10**6
    content["plan"][long] = 1
    update = messages.update_to_content(replace(UPDATE, arrays={**ARRAYS, long: ARRAYS["b"]}))
    for read, words in (
        (lambda: messages.plan_from_content(content), "RoundPlan with fields"),
        (lambda: decode(update["arrays"], specs(ARRAYS)), "do not match the model"),
        (lambda: require_only({long}, {"plan"}), "do not belong together"),
    ):
        with pytest.raises(ConfigError, match=words) as error:
            read()
        assert len(str(error.value)) < 1500


def test_a_plan_arrives_as_it_was_sent():
    content = over_the_wire(messages.plan_to_content(PLAN, encode(ARRAYS)))
    plan, arrays = messages.plan_from_content(content)
    assert plan == PLAN
    np.testing.assert_array_equal(arrays["w"].numpy(), ARRAYS["w"])


@pytest.mark.parametrize("spent", [(), SPENT])
def test_a_profile_arrives_as_it_was_sent(spent):
    profile = replace(PROFILE, spent=spent)
    assert messages.profile_from_content(over_the_wire(messages.profile_to_content(profile))) == profile


def test_an_update_arrives_as_it_was_sent():
    content = over_the_wire(messages.update_to_content(UPDATE))
    update, problem = messages.reply_from_content(content, specs(ARRAYS))
    assert problem == ""
    assert (update.spent, update.steps, update.epsilon, update.delta) == (SPENT, 7, 0.5, 1e-5)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(update.arrays[name], array)


@pytest.mark.parametrize(
    ("value", "expected", "words"),
    [
        (0.0, {}, "unknown ['b', 'w']"),
        (2e6, specs(ARRAYS), "array 'b': holds values beyond 1e+06."),
        (-3e38, specs(ARRAYS), "array 'b': holds values beyond 1e+06."),
    ],
)
def test_an_update_that_no_client_would_go_on_from_counts_as_spent_and_is_not_used(value, expected, words):
    """One of them would make an average that all other clients decline."""
    arrays = {**ARRAYS, "b": np.array(value, np.float32)}
    content = over_the_wire(messages.update_to_content(replace(UPDATE, arrays=arrays)))
    update, problem = messages.reply_from_content(content, expected)
    assert (update.spent, update.arrays) == (SPENT, {})
    assert words in problem


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (DeclinedError("too little noise"), ("declined", "too little noise", False)),
        (BudgetExhaustedError("nothing left"), ("declined", "nothing left", True)),
        (LedgerError("/data/jane-doe.sqlite cannot be read"), ("failed", AT_HOME.format("ledger"), False)),
        (DataError("scans/smith.png: unreadable"), ("failed", AT_HOME.format("data"), False)),
        (CallError("The model raised.", "Smith, 42"), ("failed", "The model raised.", False)),
        (ValueError("record 7 is 42 years old"), ("failed", UNEXPECTED, False)),
        (KeyError("patient Smith"), ("failed", UNEXPECTED, False)),
    ],
)
def test_a_refusal_tells_only_words_of_our_own(error, expected):
    refusal = refusal_of(error)
    assert (refusal.status, refusal.reason, refusal.budget_exhausted) == expected
    heard = messages.profile_from_content(over_the_wire(messages.refusal_to_content(refusal)))
    assert heard == refusal


def plan_record(**changes):
    return RecordDict({"plan": ConfigRecord({**encoded(PLAN), **changes}), "arrays": encode(ARRAYS)})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (RecordDict(), "without the record 'plan'"),
        (RecordDict({"plan": ConfigRecord(encoded(PLAN))}), "without the array record 'arrays'"),
        (RecordDict({"plan": ArrayRecord()}), "without the record 'plan'"),
        (plan_record(steps=1.5), "impossible steps: Input should be a valid integer"),
        (plan_record(steps=True), "impossible steps: Input should be a valid integer"),
        (
            plan_record(noise_multiplier="1"),
            "impossible noise_multiplier: Input should be an instance of float",
        ),
        (plan_record(epsilon=100.0), "same fl_dp"),
    ],
)
def test_a_malformed_plan_is_refused(content, words):
    with pytest.raises(ConfigError, match=words):
        messages.plan_from_content(content)


def test_an_impossible_profile_is_refused():
    columns = {"sample_rate": [0.1], "noise_multiplier": [1.0], "steps": [1], "shares": [1]}
    for spent in (columns | {"steps": []}, columns | {"steps": 1}, columns | {"steps": [-5]}):
        content = messages.profile_to_content(PROFILE)
        content["spent"] = ConfigRecord(spent)
        with pytest.raises(ConfigError, match=r"Spent|spent"):
            messages.profile_from_content(content)
    with pytest.raises(ConfigError, match="impossible client"):
        messages.profile_from_content(messages.profile_to_content(replace(PROFILE, client="a\x1b[2Jb")))


def test_another_machines_reason_is_made_fit_for_a_console():
    refused = Refusal("failed", "two\nlines \x1b[31mred\x07" + "x" * 10_000)
    reason = messages.reply_from_content(messages.refusal_to_content(refused), {})[0].reason
    assert reason.startswith("two lines \\u001b[31mred\\u0007x")
    assert len(reason) == LONGEST
