"""Groups of data sets that may share records, as comparing each with all others finds them."""

import random
import time

from fl_dp.accounting.ledger.identity import Identity, kin_groups
from fl_dp.accounting.ledger.overlap import sketch

KEY = b"k" * 32


def sample(numbers: range) -> str:
    return sketch((b"%d" % number for number in numbers), KEY)


def by_comparing_all(identities: list[Identity]) -> list[list[int]]:
    """The definition: each with each of every group."""
    groups: list[list[int]] = []
    for new in range(len(identities)):
        kin = [
            group for group in groups if any(identities[new].may_share_records(identities[i]) for i in group)
        ]
        groups = [group for group in groups if group not in kin]
        groups.append(sorted((*(one for group in kin for one in group), new)))
    return groups


def some_identity(draw: random.Random) -> Identity:
    start = draw.randrange(0, 4000, 50)
    return Identity(
        dataset=f"set {draw.randrange(40)}", fingerprint=f"print {draw.randrange(60)}",
        source=f"source {draw.randrange(12)}", cut=draw.choice(("", "iid", "by site")),
        sketch=draw.choice(("", sample(range(start, start + draw.choice((5, 60, 300)))))),
        unit=draw.choice(("record", "record", "person")),
        persons=draw.choice(("", sample(range(start, start + 40)))),
    )  # fmt: skip


def test_groups_are_those_of_comparing_each_with_all_others() -> None:
    draw, several = random.Random(1), 0
    for number in (0, 1, 2, *range(3, 40)):
        identities = [some_identity(draw) for _ in range(draw.randrange(2, 12) if number > 2 else number)]
        groups = kin_groups(identities)
        assert groups == by_comparing_all(identities)
        several += 1 < len(groups) < len(identities)
    assert several > 10


def test_thousands_of_parts_and_of_files_take_a_moment() -> None:
    parts = [Identity(f"part {i}", f"{i}", "digits", "iid", sample(range(i, i + 1))) for i in range(5000)]
    files = [Identity(f"file {i}", f"-{i}", f"file {i}", "", sample(range(-i - 1, -i))) for i in range(5000)]
    started = time.process_time()
    assert len(kin_groups(parts + files)) == 10_000
    assert time.process_time() - started < 5
