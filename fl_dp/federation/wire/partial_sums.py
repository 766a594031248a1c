"""Updates that a grid has added up already: what it is asked, what it answers, and what that means.

A grid that holds many clients in one process need not send each of their updates: it sends their weighted
sums, and for every client a report whose own arrays are empty.

    strategy -> grid    in a round's message: ADD_UP, the weight of this client's update
    grid -> strategy    in a client's reply: GROUP, the sum that the update went into;
                        and in one reply of each group: SUM and the messages answered by it

A secure sum is such a group, of integers, and the grid that opens it says of how many honest members' shares
its noise is made up; of one that could not be opened, why.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from fl_dp.errors import FederationError
from fl_dp.federation.wire.arrays import ArraySpec, NDArray, decode, encode
from fl_dp.federation.wire.messages import array_record, config_record
from fl_dp.records import MOST_MEMBERS, MOST_WEIGHT

ADD_UP, GROUP, SUM = "add-up", "group", "sum"
SUM_RECORDS = frozenset((GROUP, SUM))  # what a reply in a group may have beside its own

_ROUNDING = 1 + 1e-9  # of a sum of many updates in float64


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """sum of weight * update over some clients, float64 arrays by name; weight: the sum of their weights.

    A secure sum's arrays are int64, and count each client once. shares: of its noise; 0 for other sums.
    masked: whether nobody has seen its parts; a simulation adds them up in the clear.
    """

    arrays: Mapping[str, NDArray]
    weight: float
    shares: int = 0
    masked: bool = False


def adds_up(grid: Grid) -> bool:
    """Whether the grid can answer with sums; it does so only when it is asked to.

    Only one of our own can, in this process: a sum from another machine is nobody's update.
    """
    return getattr(grid, "adds_up", False) is True


def ask_for_sum(content: RecordDict, weight: float, names: Sequence[str] = ()) -> RecordDict:
    """A round's message that lets the grid add this client's update, times `weight`, to others.

    names: of the arrays that a secure sum is of.
    """
    content[ADD_UP] = ConfigRecord({"weight": weight, "names": list(names)})
    return content


def summed_names(content: RecordDict) -> list[str]:
    """Of the arrays that a secure sum is of."""
    record = config_record(content, ADD_UP)
    return [] if record is None else [str(name) for name in record["names"]]  # type: ignore[union-attr]


def asked_weight(content: RecordDict) -> float | None:
    """The weight with which the update is to be added up; None: it is wanted alone."""
    record = config_record(content, ADD_UP)
    return None if record is None else float(record["weight"])  # type: ignore[arg-type]


def make_group(
    replies: Mapping[str, RecordDict],
    messages: Sequence[str],
    arrays: Mapping[str, NDArray] | None,
    *,
    shares: int = 0,
    masked: bool = False,
    lost: str = "",
) -> None:
    """Let the replies to `messages`, without arrays of their own, be a group with the sum `arrays`.

    The first of them brings the sum, and the list of all; the others bear one record between them.
    arrays: None where there is none, and `lost` says why. shares, masked: of a secure sum.
    """
    group = messages[0]
    member = ConfigRecord({"group": group, "shares": shares})
    for message in messages:
        replies[message][GROUP] = member
    replies[group][GROUP] = ConfigRecord(
        {"group": group, "shares": shares, "masked": masked, "messages": list(messages), "lost": lost}
    )
    if arrays is not None:
        replies[group][SUM] = encode(arrays)


def group_of(reply: Message | None) -> str | None:
    """The group whose sum holds the reply's update; None: the reply brings its own, or none.

    To be asked only of replies that may come in a sum.
    """
    if reply is None or not reply.has_content():
        return None
    record = config_record(reply.content, GROUP)
    group = None if record is None else record.get("group")
    return group if isinstance(group, str) else None


def noise_shares_of(reply: Message) -> int:
    """Of how many shares the noise in the reply's group is made up; 0: its clients' own noise."""
    return _shares_in(config_record(reply.content, GROUP))


def read_sum(
    replies: Iterable[Message], weights: Mapping[str, float], expected: Mapping[str, ArraySpec]
) -> WeightedSum:
    """The sum of one group: of exactly the updates of the `replies`.

    weights: by the id of the message that was answered. Raises FederationError when the sum is missing,
    holds other updates than these or is larger than they can be, and ConfigError for arrays that are not as
    expected or not finite.
    """
    answered = {reply.metadata.reply_to_message_id: reply.content for reply in replies}
    for content in answered.values():
        group = config_record(content, GROUP)
        if group and group.get("lost"):
            raise FederationError(str(group["lost"]))
    carriers = [content for content in answered.values() if SUM in content]
    if len(carriers) != 1:
        raise FederationError(f"{len(carriers)} replies bring the sum of a group of {len(answered)}")
    group = config_record(carriers[0], GROUP)
    members = None if group is None else group.get("messages")
    if not isinstance(members, list) or sorted(map(str, members)) != sorted(answered):
        raise FederationError("a sum holds other updates than those that can be averaged")
    sums = {name: ArraySpec(spec.shape, _sum_type(spec)) for name, spec in expected.items()}
    arrays = decode(array_record(carriers[0], SUM), sums)
    weight = sum(weights[message_id] for message_id in answered)
    if group and (shares := _shares_in(group)):
        return WeightedSum(arrays, weight, shares, masked=group.get("masked") is True)
    most = weight * MOST_WEIGHT * _ROUNDING
    for name, array in arrays.items():
        if array.size and abs(array).max() > most:
            raise FederationError(f"the sum of array {name!r} holds values that no updates add up to")
    return WeightedSum(arrays, weight)


def _shares_in(group: ConfigRecord | None) -> int:
    """0 for what says of none, or of none that there can be."""
    shares = 0 if group is None else group.get("shares")
    return shares if type(shares) is int and 0 <= shares <= MOST_MEMBERS else 0


def _sum_type(spec: ArraySpec) -> "np.dtype[np.generic]":
    """Integers add up to integers, all else in float64."""
    return np.dtype(np.int64 if spec.dtype.kind == "i" else np.float64)
