"""What docs/running.md starts by hand, each in a terminal of its own."""

import shlex
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from docs.blocks import ROOT, blocks_of
from docs.scenes import Scene

PORT = 9092  # which the pages leave unsaid
PAGE, FOLDER = "running.md", "mine"


@contextmanager
def started(scene: Scene, folder: str, command: str) -> Iterator["subprocess.Popen[str]"]:
    words = shlex.split(command)
    assert words[0] == "fl-dp"
    process = subprocess.Popen(
        [scene.folder / ".venv" / "bin" / "fl-dp", *words[1:]],
        cwd=scene.folder / folder,
        text=True,
        env=scene.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(30)


@pytest.mark.slow
def test_a_server_and_two_clients_end_with_a_model(tmp_path):
    with socket.socket() as tried:
        if tried.connect_ex(("127.0.0.1", PORT)) == 0:
            pytest.skip(f"another program has port {PORT}, which the page takes")
    scene = Scene(tmp_path)
    scene.run(f"fl-dp new {FOLDER}")
    (block,) = [block for block in blocks_of(ROOT / "docs" / PAGE) if "by-hand" in block.words]
    server, one, two = block.commands()
    with (
        started(scene, FOLDER, server) as first,
        started(scene, FOLDER, one) as second,
        started(scene, FOLDER, two) as third,
    ):
        said = [process.communicate(timeout=600)[0] for process in (first, second, third)]
        assert [process.returncode for process in (first, second, third)] == [0, 0, 0], said
    (model,) = (scene.folder / FOLDER / "runs").glob("*/model.pt")
    assert model.stat().st_size > 0
