"""An evaluation on a client's own test records, through the client as it is shipped."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from fl_dp.accounting.ledger.accounts import lineages
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.engine.noise import gaussian
from fl_dp.federation.client import evaluation, own_training
from fl_dp.federation.client.journal import in_words, journal_folder, read_journal
from fl_dp.federation.wire.arrays import encode, state_arrays
from fl_dp.federation.wire.evaluation import EvaluationPlan, evaluation_to_content, histogram_from_content
from fl_dp.records import TEST_RECORDS, Refusal, RoundPlan
from fl_dp.tasks.score_histogram import Layout

TRAIN = RoundPlan("run-1", 1, "linear", 1, 20, 0.5, 0.0, 8.0, 1.0)
PLAN = EvaluationPlan("run-1", 1, "linear", "", "record")
SHARE = {"test": 0.4, "evaluate-epsilon": 1.5, "public-size": "auto", "delta": 1e-5}


def ask(client, plan=PLAN, arrays=None):
    content = evaluation_to_content(plan, encode(arrays or state_arrays(client.model)))
    return histogram_from_content(client.call("evaluate", content))


def accounts(client):
    with Ledger.open(client.ledger) as ledger:
        return {one.dataset: one for one in ledger.accounts() if one.retired is None}


def test_it_pays_from_an_account_of_its_own_and_stops_at_its_budget(real_client):
    client = real_client(**SHARE)
    client.train(TRAIN)
    trained = {name: one.spent() for name, one in accounts(client).items()}
    answers = [ask(client, replace(PLAN, server_round=number)) for number in (1, 2)]
    (entry,) = answers[0].spent
    assert (entry.sample_rate, entry.steps) == (1.0, 1)
    assert 1.49 < answers[0].epsilon <= 1.5  # the first spends the whole budget
    assert isinstance(answers[1], Refusal)
    assert answers[1].budget_exhausted
    (test,) = [name for name in trained if name.endswith(TEST_RECORDS)]
    assert accounts(client)[test].spent() == (entry,)
    assert all(paid.committed for paid in accounts(client)[test].rounds)
    (data,) = trained.keys() - {test}
    assert accounts(client)[data].spent() == trained[data]


def test_it_is_paid_for_before_a_record_is_counted(real_client, monkeypatch):
    client, seen = real_client(**SHARE), []

    def count(*arguments):
        seen.append(accounts(client))
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "count", count)
        assert ask(client).status == "failed"
    (test,) = [one for name, one in seen[0].items() if name.endswith(TEST_RECORDS)]
    assert [(paid.entry.steps, paid.committed) for paid in test.rounds] == [(1, False)]
    again = ask(client)  # what was paid for stays spent, and is not asked again
    assert "was already taken" in again.reason
    _allow_more(client)
    assert ask(client, replace(PLAN, server_round=2)).spent[0].steps == 2


def test_the_journal_contains_the_cost_of_a_failed_evaluation(real_client, monkeypatch):
    client = real_client(**SHARE)
    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "count", lambda *arguments: 1 / 0)
        ask(client)
    *_, line = read_journal(journal_folder(str(client.ledger)))
    assert "failed, epsilon 0.00 -> 1.50 of 1.50" in in_words(line)
    ask(client)  # was paid before: it costs nothing more
    *_, line = read_journal(journal_folder(str(client.ledger)))
    assert "epsilon" not in in_words(line)


def test_nothing_leaves_without_the_noise_of_its_payment(real_client, monkeypatch):
    """The cells less the counts are of the deviation that the payment promises."""
    client, counts = real_client(**{**SHARE, "evaluate-epsilon": 600.0}), []
    monkeypatch.setattr(
        evaluation, "count", lambda *a, real=evaluation.count: counts.append(real(*a)) or counts[-1]
    )
    cells = ask(client).cells
    multiplier = accounts(client)["npz:" + str(client.data) + TEST_RECORDS].rounds[0].entry.noise_multiplier
    weighted = counts[0] * Layout(3).weights  # two groups: all records, and each class against the rest
    noise = (cells - weighted) / (multiplier * math.sqrt(2))
    assert 0.6 < noise.std() < 1.4  # of 65 numbers
    assert len(set(noise)) == len(noise)


def test_test_records_are_never_trained(real_client, monkeypatch):
    client, trained, tested = real_client(**SHARE), [], []

    def keeping(kept, real):
        def call(self, settings_or_model, data_or_task, *more):
            kept.append(next(one for one in (data_or_task, *more) if hasattr(one, "record_digests")))
            return real(self, settings_or_model, data_or_task, *more)

        return call

    made = own_training.OwnTraining.__init__
    monkeypatch.setattr(own_training.OwnTraining, "__init__", keeping(trained, made))
    real = evaluation.count
    monkeypatch.setattr(evaluation, "count", lambda *a: tested.append(a[2]) or real(*a))
    client.train(TRAIN)
    ask(client)
    assert len(trained[0]) + len(tested[0]) == 100
    assert not set(trained[0].record_digests()) & set(tested[0].record_digests())


def test_a_declared_test_set_that_is_empty_is_answered_with_noise(real_client):
    client = real_client(**{**SHARE, "test": 1e-9})
    answer = ask(client)
    assert answer.cells.std() > 1
    assert answer.spent[0].steps == 1


def test_a_client_with_several_devices_evaluates_on_the_first(real_client, monkeypatch):
    client = real_client(**SHARE)
    _write(client, {**client.config.to_flat(), "device": "cuda:0,cuda:1"})
    asked = []
    monkeypatch.setattr(
        evaluation, "find_devices", lambda names: asked.append(names) or [torch.device("cpu")] * 2
    )
    assert ask(client).spent[0].steps == 1
    assert asked == ["cuda:0,cuda:1"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": "mlp"}, "asks for model 'mlp', this client's settings have 'linear'"),
        ({"unit": "person, first 2 records"}, "asks for unit"),
        ({"task": "other"}, "asks for task"),
        ({"server_round": 0}, "is of round 0"),
        ({"run": ""}, "without the name of its run"),
    ],
)
def test_an_evaluation_against_the_settings_is_declined_and_free(real_client, changes, words):
    client = real_client(**SHARE)
    answer = ask(client, replace(PLAN, **changes))
    assert words in answer.reason
    assert not any(one.rounds for one in accounts(client).values())


def test_weights_of_another_model_are_declined_and_free(real_client):
    client = real_client(**SHARE)
    wrong = {name: np.zeros((2, 2), np.float32) for name in state_arrays(client.model)}
    assert ask(client, arrays=wrong).status == "declined"
    assert not any(one.rounds for one in accounts(client).values())


def test_a_run_that_was_not_approved_gets_no_evaluation(real_client):
    client = real_client(**SHARE)
    client.train(TRAIN)
    _write(client, {**client.config.to_flat(), "approve": 300.0})
    assert "has trained no round of this run" in ask(client, replace(PLAN, run="another")).reason
    assert ask(client).spent[0].steps == 1


def test_a_trained_unit_never_becomes_a_test_unit(real_client):
    """Whatever its operator sets later: no test, another share, another name."""
    client = real_client("first")
    client.train(TRAIN)
    for changed in ({"test": 0.4}, {"test": 0.4, "data-name": "others"}):
        other = real_client(f"second {len(changed)}", **{**SHARE, **changed})
        own = {**other.config.to_flat(), "ledger": str(client.ledger), "data": f"npz:{client.data}"}
        _write(other, own)
        assert ask(other).reason == "its ledger cannot be used; its own log says why"


def test_training_before_a_split_adds_up_with_its_evaluations(real_client):
    """After its account is retired a unit may be tested: whoever asks the ledger gets the sum."""
    client = real_client()
    client.train(TRAIN)
    (before,) = accounts(client)
    _write(client, {**client.config.to_flat(), **SHARE})
    assert isinstance(ask(client), Refusal)
    with Ledger.open(client.ledger) as ledger:
        ledger.retire(before)
        assert not isinstance(ask(client), Refusal)
        (together,) = lineages(ledger.accounts())
        assert [one.dataset for one in together] == [before, before, before + TEST_RECORDS]


def test_another_share_is_refused(real_client):
    client = real_client(**SHARE)
    ask(client)
    for test in (0.0, 0.3):
        _write(client, {**client.config.to_flat(), "test": test})
        assert client.train(TRAIN).reason == "its ledger cannot be used; its own log says why"


def test_the_same_key_never_covers_two_histograms(real_client, monkeypatch):
    """Even if a payment's key were used again on other records: the noise follows from the counts, too."""
    client = real_client(**SHARE)
    sources = []
    real = gaussian.DiscreteGaussian
    monkeypatch.setattr(
        gaussian, "DiscreteGaussian", lambda levels, source: sources.append(source) or real(levels, source)
    )
    ask(client)
    _allow_more(client)
    ask(client, replace(PLAN, server_round=2))
    assert len({source.key for source in sources}) == 2


def _allow_more(client):
    _write(client, {**client.config.to_flat(), "evaluate-epsilon": 20.0})


def _write(client, flat):
    import tomli_w

    client.file.write_text(tomli_w.dumps({key: value for key, value in flat.items() if value != math.inf}))
