"""What is told of a model's answers to test records: the counts themselves, and never those of few."""

import numpy as np
import pytest
import torch

from fl_dp.data.subgroups import Subgroups
from fl_dp.data.tensor_data import TensorData
from fl_dp.form import Form
from fl_dp.records import LEAST_CELL
from fl_dp.tasks.outcomes import FORMAT, are_told, of_sites, of_test_records
from fl_dp.tasks.score_histogram import BINS, BLOCK, Layout, edges_of

Codes = np.ndarray
HIDDEN = {"format": FORMAT, "withheld": "few"}


def data_of(y: Codes, classes: int, **codes: Codes) -> TensorData:
    subgroups = tuple(
        Subgroups(name, tuple(f"{name}{i}" for i in range(int(one.max()) + 1)), torch.tensor(one))
        for name, one in codes.items()
    )
    names = tuple(f"c{i}" for i in range(classes))
    return TensorData(torch.zeros(len(y), 1), torch.tensor(y), names, subgroups=subgroups)


def drawn(size: int, seed: int, *, shift: float = 1.0, scale: float = 1.5) -> tuple[Codes, Codes]:
    """Labels of two classes, and the log-odds of the second one."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 2, size)
    return y, scale * random.standard_normal(size) + shift * (2 * y - 1)


def logits(odds: Codes) -> Codes:
    return np.stack([np.zeros_like(odds), odds], axis=1)


def told(found: dict) -> tuple[Codes, Codes, Codes]:
    """The counts, ends and places of its only histogram."""
    (scores,) = found["scores"]
    assert scores["class"] == "c1"
    assert scores["deviation"] == 0
    return tuple(np.array(scores[name]) for name in ("counts", "ends", "places"))


def test_of_two_classes_each_bin_counts_the_records_between_its_ends() -> None:
    y, odds = drawn(3000, 0)
    odds[:50] = 0.0  # equal scores: the first class, as the accuracy has it
    outputs = logits(odds)
    counts, ends, places = told(of_test_records(data_of(y, 2), outputs))
    p = 1 / (1 + np.exp(-odds))
    assert len(counts) > 20
    assert (ends[0], ends[-1]) == (0, 1)
    for low, high, place, row in zip(ends, ends[1:], places, counts, strict=False):
        # all but those that lie on an end as it is written
        sure = (p > low + 1e-6) & (p < high - 1e-6)
        near = (p >= low - 1e-6) & (p <= high + 1e-6)
        for label in (0, 1):
            assert (sure & (y == label)).sum() <= row[label] <= (near & (y == label)).sum()
        assert low <= place <= high
        assert place == pytest.approx(p[sure].mean(), abs=0.01)
    half = ends.tolist().index(0.5)
    answers = outputs.argmax(1)
    confusion = [[((y == i) & (answers == j)).sum() for j in (0, 1)] for i in (0, 1)]
    assert [[counts[:half, i].sum(), counts[half:, i].sum()] for i in (0, 1)] == confusion


@pytest.mark.parametrize("seed", range(12))
def test_each_class_and_each_bin_has_no_record_or_enough(seed: int) -> None:
    """Of records and persons, few and many, with scores that crowd anywhere."""
    random = np.random.default_rng(seed)
    size = int(random.integers(45, 800))
    y, odds = drawn(size, seed, shift=random.uniform(0, 6), scale=random.uniform(0.1, 4))
    owners = random.integers(0, size // 2, size) if seed % 2 else np.arange(size)
    names = [str(one) for one in owners] if seed % 2 else []
    found = of_test_records(data_of(y, 2), logits(odds), names)
    if found == HIDDEN:  # only where a class or an answer is of few
        sides = [y == 0, y == 1, odds > 0, odds <= 0]
        assert min(len(set(owners[side])) or LEAST_CELL for side in sides) < LEAST_CELL
        return
    counts, ends, _ = told(found)
    p = 1 / (1 + np.exp(-odds))
    for low, high, row in zip(ends, ends[1:], counts, strict=False):
        assert len(set(owners[(p >= low - 1e-6) & (p <= high + 1e-6)])) >= LEAST_CELL or not row.any()
    assert counts.sum() == size


def test_nothing_is_told_where_a_class_is_of_few_or_all_scores_are_alike() -> None:
    y, odds = drawn(400, 1)
    for label in (0, 1):  # one less than enough of a class, and of an answer
        few = np.flatnonzero(y == label)[: LEAST_CELL - 1]
        lonely = np.full_like(y, 1 - label)
        lonely[few] = label
        assert of_test_records(data_of(lonely, 2), logits(odds)) == HIDDEN
        assert of_test_records(data_of(y, 2), logits(np.where(lonely, 1.0, -1.0))) == HIDDEN
    persons = [str(i % (LEAST_CELL - 1)) for i in range(400)]
    assert of_test_records(data_of(y, 2), logits(odds), persons) == HIDDEN
    assert "scores" in of_test_records(data_of(y, 2), logits(np.full_like(odds, -9.0)))  # one answer alone
    odds[3] = np.nan
    assert of_test_records(data_of(y, 2), logits(odds)) == {"format": FORMAT, "withheld": "no-numbers"}


def rare(size: int, seed: int, above: int) -> tuple[Codes, Codes]:
    """A class of about 12 %, and log-odds of which so many are above the middle."""
    random = np.random.default_rng(seed)
    y = (random.random(size) < 0.12).astype(int)
    odds = np.minimum(-2 + random.standard_normal(size) + y, -0.01)
    odds[np.argsort(odds)[size - above :]] = 0.5
    return y, odds


@pytest.mark.parametrize("above", [1, 3, LEAST_CELL - 1])
@pytest.mark.parametrize("persons", [False, True])
def test_few_answers_of_a_rare_class_join_a_bin_that_is_enough_without_them(
    above: int, persons: bool
) -> None:
    y, odds = rare(600, above, above)
    owners = [str(i // 2) for i in range(600)] if persons else [str(i) for i in range(600)]
    counts, ends, _ = told(of_test_records(data_of(y, 2), logits(odds), owners if persons else []))
    assert len(counts) > 2
    assert 0.5 not in ends  # so no confusion is drawn
    assert counts[:, 1].sum() == y.sum()
    below = np.flatnonzero((1 / (1 + np.exp(-odds)) > ends[-2]) & (odds <= 0))
    assert len({owners[i] for i in below}) >= LEAST_CELL


def test_few_answers_of_either_class_are_told_nothing_of() -> None:
    y, odds = rare(30, 0, 15)
    assert of_test_records(data_of(y, 2), logits(odds)) == HIDDEN


def test_enough_answers_of_a_rare_class_keep_a_bin_of_their_own() -> None:
    y, odds = rare(600, 5, LEAST_CELL)
    _, ends, _ = told(of_test_records(data_of(y, 2), logits(odds)))
    assert 0.5 in ends


def test_beside_subgroups_nothing_is_told_from_which_a_few_could_be_worked_out() -> None:
    """A subgroup that is a class, or an answer, but for three records: the difference would tell of these."""
    y, odds = drawn(800, 2)
    for column in (y, (odds > 0).astype(int)):
        nearly = column.copy()
        nearly[:3] = 1 - nearly[:3]
        assert of_test_records(data_of(y, 2, sex=nearly), logits(odds)) == HIDDEN


def test_bins_that_follow_a_subgroup_are_merged_until_they_do_not() -> None:
    """A ward for every other fine bin, but for three records: bins minus ward would be these."""
    y, odds = drawn(3000, 2)
    fine = np.searchsorted(edges_of(32), odds)
    ward = fine % 2
    ward[:3] = 1 - ward[:3]
    plain, _, _ = told(of_test_records(data_of(y, 2), logits(odds)))
    counts, ends, _ = told(of_test_records(data_of(y, 2, ward=ward), logits(odds)))
    assert 2 <= len(counts) < len(plain)
    bins = np.searchsorted(ends[1:-1], 1 / (1 + np.exp(-odds)))
    table = np.array(
        [[((bins == one) & (ward == part)).sum() for part in (0, 1)] for one in range(len(counts))]
    )
    assert table.min(1).sum() >= LEAST_CELL  # records in which any bins differ from a ward


def several(seed: int = 3, classes: int = 5, size: int = 1000) -> tuple[Codes, Codes]:
    random = np.random.default_rng(seed)
    y = random.integers(0, classes, size)
    outputs = random.standard_normal((size, classes))
    outputs[np.arange(size), y] += 1.5
    return y, outputs


def test_of_several_classes_the_confusion_is_counted() -> None:
    y, outputs = several()
    found = of_test_records(data_of(y, 5), outputs)
    answers = outputs.argmax(1)
    expected = [[int(((y == i) & (answers == j)).sum()) for j in range(5)] for i in range(5)]
    assert found == {"format": FORMAT, "classes": [f"c{i}" for i in range(5)], "confusion": expected}


@pytest.mark.parametrize("rare", [[3], [2, 3], [0, 1, 2, 3, 4]])
def test_rare_classes_and_answers_are_one(rare: list[int]) -> None:
    """Three records of each rare class; and two that are predicted as class 4, as nothing else is."""
    y, outputs = several()
    for one in rare:
        y[np.flatnonzero(y == one)[3:]] = (max(rare) + 1) % 5
    outputs[:, 4] = -9.0
    outputs[np.flatnonzero(y == y[0])[:2], 4] = 9.0
    found = of_test_records(data_of(y, 5), outputs)
    if found == HIDDEN:
        assert len(rare) == 5
        return
    counts = np.array(found["confusion"])
    assert found["classes"][-1] == "other classes"
    assert not {f"c{one}" for one in (*rare, 4)} & set(found["classes"])
    assert counts.sum() == len(y)
    for sums in (counts.sum(0), counts.sum(1)):
        assert all(one == 0 or one >= LEAST_CELL for one in sums)
    place = [found["classes"].index(f"c{one}") if f"c{one}" in found["classes"] else -1 for one in range(5)]
    assert counts[place[y[0]]].sum() == (np.array(place)[y] == place[y[0]]).sum()


def test_a_class_that_is_never_predicted_has_a_row() -> None:
    y, outputs = several()
    outputs[:, 4] = -9.0
    found = of_test_records(data_of(y, 5), outputs)
    assert found["classes"] == ["c0", "c1", "c2", "c3", "c4"]
    assert np.array(found["confusion"])[:, 4].sum() == 0
    outputs[:, 3] = -9.0
    outputs[:2, 3] = 9.0  # an answer of two: pooled with the next smallest, and not with that of nobody
    found = of_test_records(data_of(y, 5), outputs)
    smallest = np.bincount(outputs.argmax(1), minlength=5)[:3].argmin()
    assert found["classes"] == [f"c{i}" for i in (0, 1, 2, 4) if i != smallest] + ["other classes"]


def test_which_forms_are_told() -> None:
    assert are_told(Form((3,), 2))
    assert are_told(Form((3,), 20))
    for form in (Form((3,), 21), Form((3,), 1), Form((3,), 2, "numbers"), Form((3,), 9, "tokens", 9)):
        assert not are_told(form)


@pytest.mark.parametrize(("classes", "blocks"), [(2, 1), (4, 4)])
def test_the_sites_counts_are_those_of_each_class_without_their_weights(classes: int, blocks: int) -> None:
    layout = Layout(classes)
    counts = np.arange(layout.size) * 1.0
    found = of_sites(layout, counts * layout.weights, 2.0, ("a", "b"))
    assert [one["class"] for one in found["scores"]] == (["b"] if classes == 2 else ["0", "1", "2", "3"])
    own = [(place, block) for place, block in enumerate(layout.blocks) if block.of_class >= 0]
    assert len(own) == blocks
    for (place, block), one in zip(own, found["scores"], strict=True):
        assert np.allclose(one["counts"], counts[place * BLOCK :][:BLOCK].reshape(BINS, 2), atol=1e-3)
        assert one["deviation"] == pytest.approx(2.0 / block.weight)
        assert one["ends"][BINS // 2] == 0.5
        assert all(
            low < at < high
            for low, at, high in zip(one["ends"], one["places"], one["ends"][1:], strict=False)
        )


def test_of_sites_with_many_classes_or_tokens_nothing_is_drawn() -> None:
    for layout in (Layout(7), Layout(5, tokens=True)):
        assert of_sites(layout, np.zeros(layout.size), 1.0, ()) == {}
