"""The result of a round's steps: an update, or a failure in words that may leave the client.

It is light to import, because a simulation's training processes need nothing else of the federation.
"""

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fl_dp.errors import ENDS

NOT_FINITE = "its update holds values that are not finite"


@dataclass(frozen=True, slots=True)
class RoundOutcome:
    """The result of a round that was paid for.

    arrays: the trainable parameters by name; empty if they have gone into a sum of updates, or if it failed.
    problem: why it failed, in words that may leave the client; else empty. log: only for the client's log.
    """

    arrays: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    log: str = ""


def attempt(
    train: Callable[[], Mapping[str, Any] | None], fatal: tuple[type[Exception], ...] = ()
) -> RoundOutcome:
    """Run `train`. A failure becomes words that may leave; None means numbers that are not finite.

    Only `fatal` exceptions, and those in `ENDS`, propagate, because texts and tracebacks may quote the data.
    """
    try:
        arrays = train()
    except fatal:
        raise
    except BaseException as error:
        if isinstance(error, ENDS):
            raise
        from fl_dp.federation.wire.messages import refusal_of  # late: it imports Flower

        return RoundOutcome(problem=refusal_of(error).reason, log=traceback.format_exc())
    return RoundOutcome(problem=NOT_FINITE) if arrays is None else RoundOutcome(arrays)
