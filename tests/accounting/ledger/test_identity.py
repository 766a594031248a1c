"""Which data sets may stand beside each other in one ledger: those that nothing says overlap."""

import random
import time
from dataclasses import replace

import pytest

from fl_dp.accounting.ledger.identity import Identity, IdentityIndex, conflict, kin_groups
from fl_dp.accounting.ledger.overlap import sketch
from fl_dp.accounting.ledger.requests import OF_FILES

RECORDS = [bytes([n]) * 32 for n in range(40)]
HALVES = "2 parts (iid, seed 0)"
ELSEWHERE = {"dataset": "copy", "fingerprint": "f9", "source": "copy"}
PART = Identity("set, part 0/2 (iid, seed 0)", "f0", "set", HALVES, sketch(RECORDS[:20], b"key"))


@pytest.mark.parametrize(
    "other",
    [
        replace(PART, dataset="set, part 1/2 (iid, seed 0)", fingerprint="f1"),  # copies of records or not
        Identity("other", "g", "other", "", sketch(RECORDS[20:], b"key")),
        Identity("unknown", "g", "unknown"),
    ],
)
def test_what_shares_no_records_may_stand_beside_it(other):
    assert conflict(PART, other) == conflict(other, PART) == ""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"fingerprint": "f9"}, "same seed in every run), or retire set, part 0/2"),
        (
            {"dataset": "copy", "source": "copy"},
            "has these data as set, part 0/2 (iid, seed 0), not copy; use that",
        ),
        (
            {"dataset": "set, part 0/3 (iid, seed 0)", "fingerprint": "f9", "cut": "3 parts (iid, seed 0)"},
            "has set as set, part 0/2 (iid, seed 0); set, part 0/3 (iid, seed 0) would share records",
        ),
        ({"dataset": "set", "fingerprint": "f9", "cut": ""}, "set would share records with it"),
        (
            {**ELSEWHERE, "sketch": sketch(RECORDS[15:], b"key")},
            "copy seems to share many records with set, part 0/2",
        ),
    ],
    ids=["changed", "renamed", "cut otherwise", "the whole", "overlapping"],
)
def test_what_may_share_records_is_refused_with_words_that_say_what_to_do(changes, words):
    reason = conflict(PART, replace(PART, **changes))
    assert words in reason
    assert conflict(replace(PART, **changes), PART)


def test_every_part_of_another_set_is_compared():
    """A copy of records of the second part is noticed as well, whichever part was entered first."""
    index = IdentityIndex()
    index.add(PART)
    second = Identity("set, part 1/2 (iid, seed 0)", "f1", "set", HALVES, sketch(RECORDS[20:], b"key"))
    index.add(second)
    copy = Identity("copy", "g", "copy", "", sketch(RECORDS[30:], b"key"))
    assert "copy seems to share many records with set, part 1/2" in index.conflict(copy)
    assert index.conflict(replace(PART, dataset="set, part 5/9", fingerprint="c", cut="9 parts"))
    assert index.conflict(replace(PART, dataset="set, part 2/2", fingerprint="c")) == ""
    index.remove(second)
    assert index.conflict(copy) == ""


PERSONS = replace(PART, unit="person", persons=sketch(RECORDS[:8], b"other key"))


def test_what_has_spent_by_records_does_not_go_on_by_persons_nor_the_other_way_round():
    """By the data set's own name, by a part of it, or by many of its records under another name."""
    for changes in (
        {"fingerprint": "of persons"},
        {"dataset": "set", "fingerprint": "f9", "cut": ""},
        ELSEWHERE,
    ):
        persons, records = replace(PERSONS, **changes), replace(PART, **changes)
        assert "has spent with the record as its unit of privacy; " in conflict(PART, persons)
        assert "Keep the record (unit), or retire set, part 0/2" in conflict(PART, persons)
        assert "has spent with the person as its unit of privacy; " in conflict(PERSONS, records)


def test_the_same_persons_with_new_records_and_the_same_records_of_new_persons_are_noticed():
    fresh = {"sketch": sketch(RECORDS[25:], b"key"), "persons": sketch(RECORDS[25:], b"other key")}
    assert conflict(PERSONS, replace(PERSONS, **{**ELSEWHERE, **fresh})) == ""
    for one in fresh:
        reason = conflict(PERSONS, replace(PERSONS, **{**ELSEWHERE, one: fresh[one]}))
        assert "copy seems to share many persons with set, part 0/2" in reason


def test_a_persons_new_records_do_not_begin_anew_by_the_other_unit():
    """By the record the names that records are grouped by are known, too: they may be persons'."""
    records = replace(PERSONS, **ELSEWHERE, sketch=sketch(RECORDS[25:], b"key"), unit="record")
    assert "set, part 0/2 (iid, seed 0) has spent with the person as its unit of privacy; copy" in conflict(
        PERSONS, records
    )
    assert "copy has spent with the record as its unit of privacy; set, part 0/2" in conflict(
        records, PERSONS
    )
    # two tables of one hospital are grouped by the same name, and need not share a record
    assert conflict(replace(PERSONS, unit="record"), records) == ""


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
        dataset=f"set {draw.randrange(40)}",
        fingerprint=f"print {draw.randrange(60)}",
        source=f"source {draw.randrange(12)}",
        cut=draw.choice(("", "iid", "by site")),
        sketch=draw.choice(("", sample(range(start, start + draw.choice((5, 60, 300)))))),
        unit=draw.choice(("record", "record", "person")),
        persons=draw.choice(("", sample(range(start, start + 40)))),
    )


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


def test_only_files_known_as_such_are_one_with_what_a_source_reads_from_them():
    files = sketch([b"1"], bytes(32))
    by_files, read = (Identity("ehr", f, "ehr", files=files) for f in (f"{OF_FILES}1", "1"))
    assert by_files.is_of_same_files(read)
    assert read.is_of_same_files(by_files)
    assert not by_files.is_of_same_files(replace(by_files, fingerprint=f"{OF_FILES}2"))
    assert not read.is_of_same_files(replace(read, fingerprint="2"))
    for other in ({"unit": "person"}, {"source": "b"}, {"cut": "2 parts"}, {"files": ""}):
        assert not by_files.is_of_same_files(replace(read, **other))
