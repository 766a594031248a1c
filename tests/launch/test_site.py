"""What a site's console says of its client's life."""

import json
import sys
from pathlib import Path
from typing import Any

from fl_dp.config.client import ClientConfig
from fl_dp.kits.loopback import loopback_server, loopback_site
from fl_dp.launch import site as module
from fl_dp.launch.exit_codes import ExitCode


def test_the_end_of_a_run_is_said_with_what_came_of_it(tmp_path, monkeypatch):
    """The client itself is a process that tells what a real one would."""
    lines = [{"what": "joined", "words": "joined the server"}, {"what": "over", "words": "the run is over"}]
    events = "".join(f"{json.dumps(line)}\n" for line in lines)

    def start(processes: Any, name: str, clients: Any, env: dict[str, str], file: Path, log: Path) -> None:
        code = f"open({clients[0].events!r}, 'w').write({events!r})"
        processes.start(name, [sys.executable, "-c", code], env, log)

    monkeypatch.setattr(module, "start_clients", start)
    keys, said = tmp_path / "keys", list[str]()
    loopback_server(keys, 1)
    settings = ClientConfig(client="north", ledger=str(tmp_path / "ledger.sqlite"))
    kit = loopback_site(keys, "north")
    code = module.run_client(
        settings, kit, "127.0.0.1:1", [], said.append,
        folder=tmp_path / "own", once=True, at_the_end=lambda: "nothing was trained here",
    )  # fmt: skip
    assert code == ExitCode.TRAINED
    assert said[-2:] == ["joined the server", "the run is over; nothing was trained here"]
