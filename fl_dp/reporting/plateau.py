"""Since which round a run has become no better than chance moves it: later rounds have bought nothing."""

import math
import statistics
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from fl_dp.reporting.console import rounded_up

_GROW = ("accuracy", "auroc", "balanced-accuracy", "f1", "label-accuracy", "r2")  # the more, the better
_FEWEST = 8  # evaluated rounds, of which half show the scatter
_EARLY = 0.6  # of the rounds: a later beginning is not worth a word
_RARE = 0.75  # a constant prediction as accurate as this: one class is rare
_HARDLY = 0.1  # of what the constant prediction leaves wrong


def rare_words(summary: Mapping[str, Any]) -> str:
    """That accuracy says little of a rare class; empty if it does, or if another metric stands first."""
    metrics, constant = summary.get("metrics") or {}, (summary.get("constant") or {}).get("accuracy")
    name, reached = next(iter(metrics.items()), ("", None))
    if name != "accuracy" or reached is None or constant is None or "perplexity" in metrics:
        return ""
    if constant < _RARE or reached - constant >= _HARDLY * (1 - constant):
        return ""
    return (
        "accuracy is hardly above that of the best constant prediction, because one class is rare: see the "
        'ROC on the page, and set metrics = "auroc,accuracy" for later runs'
    )


def plateau_words(rounds: Iterable[Mapping[str, Any]]) -> str:
    """What fewer rounds would have been enough for; empty if the last ones have helped, or it is not clear.

    Scatter is the standard deviation of a round beside its neighbours, in the later half. The model is as
    good as at the end from the first round on whose metric is no more than two of these below the mean of the
    last quarter.
    """
    found = [
        (line["round"], line["epsilon"], name, value)
        for line in rounds
        for name, value in list(line["metrics"].items())[:1]
        if name in _GROW and value is not None and line["private"] and line["epsilon"] is not None
    ]
    if len(found) < _FEWEST:
        return ""
    values = [value for *_, value in found]
    later = values[len(values) // 2 :]
    scatter = statistics.pstdev(b - a for a, b in pairwise(later)) / math.sqrt(2)
    level = statistics.fmean(values[-(len(values) // 4) :])
    server_round, epsilon, name, _ = next(one for one in found if one[3] >= level - 2 * scatter)
    if server_round == found[0][0] or server_round > _EARLY * found[-1][0]:  # it never learnt, or learnt late
        return ""
    return (
        f"since round {server_round} {name} has moved only by chance (+- {scatter:.3f}): {server_round} "
        f"rounds, at epsilon {rounded_up(epsilon)}, would have been enough"
    )
