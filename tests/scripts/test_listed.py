"""The listed changes: each can be made, so that none of them tests nothing."""

from scripts.mutation.listed import ROOT, listed_changes


def test_what_a_listed_change_replaces_stands_once_in_its_file():
    changes = listed_changes()
    gone = [one.name for one in changes if one.applied((ROOT / one.file).read_text(encoding="utf-8")) is None]
    assert changes
    assert not gone, "write them anew for the code that keeps the promise now: CONTRIBUTING.md"
