"""A client's state is that of its last round before the one that is asked for."""

from pathlib import Path

from fl_dp.federation.client.kept_states import KeptStates


def test_a_state_is_that_of_the_last_round_before(tmp_path: Path) -> None:
    states = KeptStates(tmp_path / "new")
    assert states.before("3", 9) == b""
    states.save(2, {"3": b"two", "4": b"other"})
    states.save(5, {"3": b"five"})
    for kept in (states, KeptStates(tmp_path / "new")):
        assert [kept.before("3", r) for r in (2, 3, 5, 6)] == [b"", b"two", b"two", b"five"]
        assert kept.before("4", 6) == b"other"
    assert all(file.stat().st_mode & 0o077 == 0 for file in (tmp_path / "new").iterdir())


def test_of_settled_rounds_the_last_stays_of_all_clients_or_of_one(tmp_path: Path) -> None:
    states = KeptStates(tmp_path)
    for server_round in (1, 2, 3):
        states.save(server_round, {"a": bytes([server_round]), "b": b"b"})
    states.settle(2)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a-2.pt", "a-3.pt", "b-2.pt", "b-3.pt"]
    assert states.before("a", 3) == b"\2"
    states.settle(3, "a")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a-3.pt", "b-2.pt", "b-3.pt"]


def test_a_file_of_another_program_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "3-x.pt").write_bytes(b"?")
    states = KeptStates(tmp_path)
    states.save(1, {"3": b"one"})
    assert KeptStates(tmp_path).last("3") == b"one"


def test_a_file_that_is_gone_already_ends_nothing(tmp_path: Path) -> None:
    """Another round on the same data may have taken it away meanwhile."""
    states = KeptStates(tmp_path)
    for server_round in (1, 2):
        states.save(server_round, {"a": b"a"})
    (tmp_path / "a-1.pt").unlink()
    states.settle(2)
    assert states.last("a") == b"a"
