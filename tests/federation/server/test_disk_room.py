"""A full disk at the server: nobody pays before there is room, and what was paid for is waited with."""

import errno
from functools import partial

import pytest
import torch
from federation.server import short_run

from fl_dp.errors import LaunchError
from fl_dp.federation.server import run_record
from fl_dp.federation.server.run import run_federation
from fl_dp.federation.server.run_record import FILE, DiskRoom
from fl_dp.federation.server.state import STATE, read_state
from fl_dp.reporting.run_results import RunResults

FLAT = {
    "rounds": 3,
    "noise-multiplier": 2.0,
    "round-timeout": 0.3,
    "device": "cpu",
    "accountant": "rdp",
}
FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def two(fakes):
    return short_run.two(fakes)


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(run_record, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(run_record, "WAIT_SECONDS", 0.2)


@pytest.fixture
def serve(tmp_path, two):
    said: list[str] = []
    run = partial(run_federation, two, FLAT, "run", tmp_path / "out", say=said.append)
    run.said, run.folder, run.grid = said, tmp_path / "out", two
    return run


def failing(times, error=FULL):
    """Fails so often; `None`: always."""
    left = [times]

    def fail():
        if left[0] is None or left[0] > 0:
            left[0] = left[0] and left[0] - 1
            raise error

    return fail


def before(monkeypatch, where, name, fail):
    """Let `fail` be called before each call of it."""
    original = getattr(where, name)

    def wrapped(*args, **options):
        fail(*args)
        return original(*args, **options)

    monkeypatch.setattr(where, name, wrapped)


def test_nobody_is_asked_for_a_round_before_there_is_room_for_its_results(serve, quick, monkeypatch):
    full = failing(None)
    before(monkeypatch, run_record.os, "posix_fallocate", lambda *_: full())
    with pytest.raises(LaunchError, match=r"no room for 4 MiB .* No space left on device\. Make room"):
        serve()
    assert serve.grid.trained() == []
    assert len(serve.said) == 1
    assert not (serve.folder / FILE).exists()


def test_room_is_held_for_two_states_two_models_and_the_rest_and_never_less_than_before(tmp_path):
    room = DiskRoom(tmp_path)
    for state, model, size in ((1000, 300, 2600), (10, 20, 2600), (2000, 300, 4600)):
        room.hold(state, model)
        assert (tmp_path / FILE).stat().st_size == size + 2**22


def test_room_that_comes_is_waited_for_with_one_word(serve, quick, monkeypatch):
    full = failing(5)
    before(monkeypatch, run_record.os, "posix_fallocate", lambda *_: full())
    serve()
    (said,) = serve.said
    assert said.startswith(
        f"{serve.folder}: waiting for room for 4 MiB that the run's results may need: No space"
    )


@pytest.mark.parametrize("what", ["state", "line", "model", "summary"])
@pytest.mark.parametrize("error", [FULL, OSError(errno.EMFILE, "Too many open files")])
def test_paid_rounds_are_written_in_the_reserved_room(serve, quick, monkeypatch, what, error):
    """It is full for everybody else as long as the kept room is there, and twice without one."""
    where, name = {
        "state": (run_record, "write_state"),
        "line": (RunResults, "append_round"),
        "model": (RunResults, "save_model"),
        "summary": (RunResults, "write_summary"),
    }[what]
    sizes, once = [], failing(2, error)

    def full(*_):
        if (serve.folder / FILE).exists():
            sizes.append((serve.folder / FILE).stat().st_size)
            raise error
        if sizes:
            once()

    before(monkeypatch, where, name, full)
    serve()
    lines, summary = short_run.left(serve.folder.parent)
    assert (len(lines), summary["status"]) == (3, "completed")
    assert sizes
    assert min(sizes) > 2**22
    assert len(serve.said) == 1
    assert not (serve.folder / FILE).exists()


def test_a_disk_that_stays_full_ends_the_run_with_one_error_and_it_can_be_resumed(
    serve, quick, monkeypatch, caplog
):
    with monkeypatch.context() as patched:

        def full(path, *state):
            if not state or state[0].rounds == 2:
                raise FULL

        before(patched, run_record, "write_state", full)
        for name in ("write_summary", "save_model", "go_on_after"):
            before(patched, RunResults, name, lambda *_: failing(None)())
        with pytest.raises(
            LaunchError, match=r"Make room, then continue after the last round with --resume"
        ) as ended:
            serve()
    assert "\n" not in str(ended.value)
    assert read_state(serve.folder / STATE).rounds == 1
    assert "Traceback" not in caplog.text
    serve(resumed=True)
    assert len(short_run.left(serve.folder.parent)[0]) == 3


def test_the_shortage_behind_an_error_of_torch_is_seen(tmp_path, quick):
    """torch.save says only that a position is unexpected."""
    full, said = failing(2), []

    class Disk:
        def write(self, content):
            full()
            return len(content)

        def flush(self):
            pass

    DiskRoom(tmp_path, said.append).write(lambda: torch.save({"a": torch.zeros(9)}, Disk()), "the model")
    assert len(said) == 1


def test_other_errors_are_not_waited_for(tmp_path):
    for error in (OSError(errno.EACCES, "denied"), RuntimeError("another")):
        with pytest.raises(type(error)):
            DiskRoom(tmp_path).write(failing(1, error), "x")
