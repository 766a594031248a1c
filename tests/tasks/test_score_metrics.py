"""Metrics of a histogram: those of the scores, up to their bins; intervals count the noise and the sample."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, recall_score, roc_auc_score

from fl_dp.form import Form
from fl_dp.tasks.score_histogram import BINS, EDGES, MIDDLES, Layout
from fl_dp.tasks.score_metrics import auroc, estimates, projected


def sample(records, generator, spread=1.5):
    """Log-odds of a calibrated model, and labels."""
    labels = generator.integers(0, 2, records)
    return spread * generator.normal(size=records) + spread**2 * (labels - 0.5), labels


def histogram(log_odds, labels):
    counts = np.zeros((BINS, 2))
    np.add.at(counts, (np.searchsorted(EDGES, log_odds, side="right"), labels), 1)
    return np.append(counts.reshape(-1), 0.0)


def test_without_noise_they_are_sklearns_up_to_the_bins():
    layout = Layout.of(Form((3,), 2), 1)
    log_odds, y = sample(4000, np.random.default_rng(0))
    found = {name: one.value for name, one in estimates(layout, histogram(log_odds, y), 0.0).items()}
    p, told = 1 / (1 + np.exp(-log_odds)), log_odds >= 0
    binned = MIDDLES[np.searchsorted(EDGES, log_odds, side="right")]
    assert found["records"] == 4000
    assert found["accuracy"] == pytest.approx(accuracy_score(y, told), abs=1e-12)
    assert found["recall"] == pytest.approx(recall_score(y, told), abs=1e-12)
    assert found["selection-rate"] == pytest.approx(told.mean(), abs=1e-12)
    assert found["auroc"] == pytest.approx(roc_auc_score(y, binned), abs=1e-12)  # exactly those of the bins
    assert found["log-loss"] == pytest.approx(log_loss(y, binned), abs=1e-12)
    assert found["brier"] == pytest.approx(brier_score_loss(y, binned), abs=1e-12)
    assert found["calibration"] == pytest.approx(y.mean() - binned.mean(), abs=1e-12)
    error = 1.2 / BINS**1.5  # and close to those of the scores
    assert found["auroc"] == pytest.approx(roc_auc_score(y, p), abs=error)
    assert found["brier"] == pytest.approx(brier_score_loss(y, p), abs=error)
    assert found["log-loss"] == pytest.approx(log_loss(y, p), abs=2 * error)


def test_of_several_classes_accuracy_and_the_mean_auroc():
    layout = Layout.of(Form((3,), 3), 1)
    generator = np.random.default_rng(1)
    y, logits = generator.integers(0, 3, 3000), generator.normal(size=(3000, 3))
    logits[np.arange(3000), y] += 1.0
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    odds = np.log(p / (1 - p))
    right = (logits.argmax(1) == y).astype(int)
    blocks = [histogram(odds[np.arange(3000), y], right)[:-1]]
    blocks += [histogram(odds[:, k], (y == k).astype(int))[:-1] for k in range(3)]
    cells = np.concatenate([*blocks, [0.0]]) * layout.weights
    found = {name: one.value for name, one in estimates(layout, cells, 0.0).items()}
    assert found["records"] == pytest.approx(3000)
    assert found["accuracy"] == pytest.approx(right.mean(), abs=1e-12)
    binned = np.searchsorted(EDGES, odds, side="right")
    of_bins = np.mean([roc_auc_score(y == k, binned[:, k]) for k in range(3)])
    assert found["auroc"] == pytest.approx(of_bins, abs=1e-12)  # exactly that of the bins
    assert found["auroc"] == pytest.approx(roc_auc_score(y, p, multi_class="ovr"), abs=0.015)
    assert found["log-loss"] == pytest.approx(log_loss(y, p), abs=0.06)
    assert found["brier"] == pytest.approx(((p - np.eye(3)[y]) ** 2).sum(1).mean(), abs=0.02)
    assert {"auroc[0]", "auroc[1]", "auroc[2]"} < found.keys()


@pytest.mark.parametrize(("records", "deviation"), [(2000, 3.7), (300, 4.0), (300, 0.0)])
def test_an_interval_holds_the_metric_of_the_population_as_often_as_it_says(records, deviation):
    """Over 150 samples; 95 % less three standard errors is 89 %."""
    layout, generator = Layout.of(Form((3,), 2), 1), np.random.default_rng(2)
    cells = histogram(*sample(400_000, generator))
    true = {name: one.value for name, one in estimates(layout, cells, 0.0).items()}
    names, hits = ("auroc", "accuracy", "brier", "log-loss", "recall"), []
    for seed in range(150):
        noisy = histogram(*sample(records, generator))
        noisy += deviation * generator.normal(size=noisy.shape)
        found = estimates(layout, noisy, deviation, seed)
        hits.append([found[name].low <= true[name] <= found[name].high for name in names])
    assert (np.mean(hits, axis=0) >= 0.89).all(), dict(zip(names, np.mean(hits, axis=0), strict=True))


def test_an_empty_test_set_gives_noise_and_no_metric():
    layout, generator = Layout.of(Form((3,), 2), 1), np.random.default_rng(3)
    found = estimates(layout, 4.0 * generator.normal(size=layout.size), 4.0)
    assert found["auroc"].value is None
    assert found["auroc"].low is None


def test_projected_counts_are_the_nearest_that_are_not_negative():
    counts = np.array([[5.0, -2.0], [1.0, 0.5]])
    found = projected(counts)
    assert found == pytest.approx(np.array([[4.25, 0.0], [0.25, 0.0]]))
    assert projected(np.full((2, 2), -3.0)).sum() == pytest.approx(1.0)


def test_equal_scores_count_half():
    assert auroc(np.array([[3.0, 2.0], [0.0, 0.0]])) == pytest.approx(0.5)
