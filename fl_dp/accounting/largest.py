"""The most that one record may have spent in several trainings, if its client in each is not known."""

import math
from collections.abc import Iterable, Sequence

from fl_dp.accounting.accountants.rdp import largest_rdp_epsilon
from fl_dp.accounting.epsilon import compute_epsilon, resolvable
from fl_dp.accounting.events import beyond, merge
from fl_dp.records import Entry

Spent = tuple[Entry, ...]
_FEW = 32  # histories whose epsilons are computed one by one


def largest_epsilon(choices: Sequence[Iterable[Spent]], delta: float) -> float:
    """An upper bound of the epsilon of one history out of each of `choices`, whichever these are.

    Which history costs most depends on the others that it is composed with. If there are few combinations,
    all are computed; if many, Renyi divergences bound them together.
    """
    each = [_most({merge(one) for one in some}) for some in choices]
    together: set[Spent] = {()}
    for some in each:
        together = _most({merge((*one, *more)) for one in together for more in some})
        if len(together) > _FEW:
            break
    else:
        return max(compute_epsilon(one, delta) for one in together)
    if any(math.isinf(compute_epsilon(one, delta, "rdp")) for some in each for one in some):
        return math.inf
    return largest_rdp_epsilon([map(resolvable, some) for some in each], delta)


def _most(histories: set[Spent]) -> set[Spent]:
    """Without those that are part of another one; all if they are many."""
    if len(histories) > _FEW**2:
        return histories
    return {one for one in histories if all(beyond(one, other) for other in histories if other != one)}
