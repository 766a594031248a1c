"""Partial sums: updates that a grid has already added up.

A grid with many clients in one process need not send each of their updates. It sends their weighted sums, and
for every client a report whose own arrays are empty.

    strategy -> grid    in a round's message: ADD_UP, the weight of this client's update
    grid -> strategy    in a client's reply: GROUP, the sum that the update went into;
                        and in one reply of each group: SUM and the messages answered by it

A secure sum is a group with a sum of integers. The grid that opens it says how many honest members' shares
make its noise or, if it could not be opened, why.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict

from fl_dp.errors import FederationError
from fl_dp.federation.wire.arrays import ArraySpec, NDArray, decode, encode
from fl_dp.federation.wire.messages import array_record, config_record
from fl_dp.records import MOST_MEMBERS, MOST_WEIGHT

ADD_UP, GROUP, SUM = "add-up", "group", "sum"
SUM_RECORDS = frozenset((GROUP, SUM))  # what a reply in a group may have beside its own

_ROUNDING = 1 + 1e-9  # of a sum of many updates in float64


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """The sum of weight * update over some clients, float64 arrays by name; weight: the sum of their weights.

    A secure sum's arrays are int64, and count each client once. shares: of its noise; 0 for other sums.
    masked: nobody has seen its parts; False in a simulation, which adds them up without masks.
    """

    arrays: Mapping[str, NDArray]
    weight: float
    shares: int = 0
    masked: bool = False


def ask_for_sum(content: RecordDict, weight: float, names: Sequence[str] = ()) -> RecordDict:
    """Mark a round's message so that the grid may add this client's update, times `weight`, to others.

    names: of the arrays in a secure sum.
    """
    content[ADD_UP] = ConfigRecord({"weight": weight, "names": list(names)})
    return content


def summed_names(content: RecordDict) -> list[str]:
    record = config_record(content, ADD_UP)
    return [] if record is None else [str(name) for name in record["names"]]  # type: ignore[union-attr]


def asked_weight(content: RecordDict) -> float | None:
    """The weight of the update in a sum; None: the update is wanted alone."""
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
    """Make the replies to `messages`, which have no arrays of their own, a group with the sum `arrays`.

    The first reply carries the sum and the list of all; the others share one record.
    arrays: None if there is no sum; `lost` then says why. shares, masked: of a secure sum.
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
    """The group whose sum contains the reply's update; None: the reply brings its own, or none.

    Call it only for replies that may come in a sum.
    """
    if reply is None or not reply.has_content():
        return None
    record = config_record(reply.content, GROUP)
    group = None if record is None else record.get("group")
    return group if isinstance(group, str) else None


def noise_shares_of(reply: Message) -> int:
    """The number of shares in the noise of the reply's group; 0: no secure sum, each client's own noise."""
    return _shares_in(config_record(reply.content, GROUP))


def read_sum(
    replies: Iterable[Message], weights: Mapping[str, float], expected: Mapping[str, ArraySpec]
) -> WeightedSum:
    """The sum of one group: of exactly the updates of the `replies`.

    weights: by the id of the message that was answered. Raises FederationError if the sum is missing,
    contains other updates than these or is larger than they can be, and ConfigError for arrays that are not
    as expected or not finite.
    """
    answered = {reply.metadata.reply_to_message_id: reply.content for reply in replies}
    for content in answered.values():
        group = config_record(content, GROUP)
        if group and group.get("lost"):
            raise FederationError(str(group["lost"]))
    carriers = [content for content in answered.values() if SUM in content]
    if len(carriers) != 1:
        raise FederationError(f"{len(carriers)} replies contain the sum of a group of {len(answered)}")
    group = config_record(carriers[0], GROUP)
    members = None if group is None else group.get("messages")
    if not isinstance(members, list) or sorted(map(str, members)) != sorted(answered):
        raise FederationError("a sum holds other updates than those of its replies")
    kinds = {name: np.int64 if spec.dtype.kind == "i" else np.float64 for name, spec in expected.items()}
    sums = {name: ArraySpec(spec.shape, np.dtype(kinds[name])) for name, spec in expected.items()}
    arrays = decode(array_record(carriers[0], SUM), sums)
    weight = sum(weights[message_id] for message_id in answered)
    if group and (shares := _shares_in(group)):
        return WeightedSum(arrays, weight, shares, masked=group.get("masked") is True)
    most = weight * MOST_WEIGHT * _ROUNDING
    for name, array in arrays.items():
        if array.size and abs(array).max() > most:
            raise FederationError(f"the sum of array {name!r} holds values too large for these updates")
    return WeightedSum(arrays, weight)


def _shares_in(group: ConfigRecord | None) -> int:
    """The number of shares; 0 if it is missing or impossible."""
    shares = 0 if group is None else group.get("shares")
    return shares if type(shares) is int and 0 <= shares <= MOST_MEMBERS else 0
