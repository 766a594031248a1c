"""Whether a run goes nowhere: its model beside answers that need no model. From evaluated numbers alone."""

import math
from dataclasses import dataclass

_FAR = 2.0  # times the loss of equal odds: noise alone moves a model about so far, learning never does
_NEXT = "take the settings that fl-dp plan chooses, or a smaller learning-rate"


@dataclass(frozen=True, slots=True)
class WithoutAModel:
    """Of the best constant prediction: its loss, and accuracy if that is measured.
    equal_odds: the loss of a model whose outputs are all zero.
    """

    loss: float
    accuracy: float | None
    equal_odds: float


def why_nowhere(
    server_round: int, rounds: int, loss: float, accuracy: float | None, constant: WithoutAModel | None
) -> str:
    """One sentence for the operator, with what to do; empty if all may be well.

    A loss that is not finite, or far above equal odds, is reported at once; no better than the constant
    prediction from round 2 on, or from a tenth of all rounds, as a round of a secure sum is a single step.
    constant: None where it is not known.
    """
    if not math.isfinite(loss):
        return f"This run is going nowhere: its loss is not finite; stop it, and {_NEXT}."
    if constant is None:
        return ""
    if loss > _FAR * max(constant.loss, constant.equal_odds):
        return (
            f"This run is going nowhere: its loss {loss:.3g} is far above {constant.loss:.3g}, that of the "
            f"best constant prediction; stop it, and {_NEXT}."
        )
    begun = server_round >= min(rounds, max(2, math.ceil(rounds / 10)))
    no_better = loss >= constant.loss and (
        accuracy is None or constant.accuracy is None or accuracy <= constant.accuracy
    )
    if begun and no_better:
        return (
            f"This run is going nowhere so far: its loss {loss:.3g} is no better than {constant.loss:.3g}, "
            f"that of the best constant prediction; unless fl-dp check says that noise drowns them, {_NEXT}."
        )
    return ""
