"""A run says since when it has bought nothing; one that still learns says nothing."""

import pytest

from fl_dp.reporting.plateau import plateau_words, rare_words

FLAT = [0.3, 0.6, 0.8, 0.91, 0.9, 0.92, 0.91, 0.9, 0.92, 0.91, 0.9, 0.91]


def rounds_of(values, name="accuracy", private=True):
    return [
        {"round": n, "private": private, "epsilon": n / 10 if private else None, "metrics": {name: value}}
        for n, value in enumerate(values, 1)
    ]


def test_later_rounds_that_only_scatter_are_said_with_what_was_enough():
    assert plateau_words(rounds_of(FLAT)) == (
        "since round 4 accuracy has moved only by chance (+- 0.009): 4 rounds, at epsilon 0.40, would "
        "have been enough"
    )


@pytest.mark.parametrize(
    "rounds",
    [
        rounds_of([n / 12 for n in range(12)]),  # it still learns
        rounds_of([0.1] * 8 + [0.9] * 4),  # it has learnt late
        rounds_of([0.1, 0.11] * 6),  # it has never learnt
        rounds_of(FLAT[:7]),  # too few to tell
        rounds_of(FLAT, "mae"),  # the less, the better
        rounds_of(FLAT, private=False),
        rounds_of([None] * 12),
        [],
    ],
)
def test_otherwise_nothing_is_said(rounds):
    assert plateau_words(rounds) == ""


def ended(accuracy, constant, **others):
    return {"metrics": {"accuracy": accuracy, **others}, "constant": {"accuracy": constant, "loss": 0.4}}


def test_where_a_class_is_rare_accuracy_is_said_to_say_little():
    assert "one class is rare: see the ROC" in rare_words(ended(0.883, 0.878))
    assert "one class is rare" in rare_words(ended(0.86, 0.878))


@pytest.mark.parametrize(
    "summary",
    [
        ended(0.95, 0.878),  # it says enough
        ended(0.62, 0.61),  # no class is rare
        ended(0.883, 0.878, perplexity=3.0),  # tokens
        ended(None, 0.878),
        ended(0.883, None),
        {"metrics": {"auroc": 0.7, "accuracy": 0.88}, "constant": {"auroc": 0.5, "accuracy": 0.88}},
        {"metrics": {}, "constant": None},
        {},
    ],
)
def test_otherwise_accuracy_is_left_alone(summary):
    assert rare_words(summary) == ""
