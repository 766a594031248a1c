"""What a server's socket for monitoring says, to whom, and what it never says."""

import json
import os
import socket
from http.client import HTTPConnection
from pathlib import Path

import pytest

from fl_dp.errors import ConfigError
from fl_dp.federation.link.hub import Hub
from fl_dp.federation.link.site_link import SiteLink
from fl_dp.federation.security import security_event
from fl_dp.kits.loopback import loopback_server, loopback_site
from fl_dp.launch.logs import Watched
from fl_dp.launch.metrics import RunMetrics, metrics_served
from fl_dp.launch.serving import serving
from fl_dp.reporting.run_folder import claim_folder


class _AtSocket(HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._path))


def get(path: Path, what: str) -> tuple[int, str]:
    connection = _AtSocket(path)
    connection.request("GET", what)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def numbers(text: str) -> dict[str, float]:
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


def test_it_says_how_a_run_goes_and_nothing_of_what_data_have_spent(tmp_path):
    """Every name is here: one that is added tells somebody something."""
    keys = tmp_path / "keys"
    kit, site = loopback_server(keys, 1), loopback_site(keys, "north")
    folder, umask = claim_folder(tmp_path / "run"), os.umask(0)
    try:
        with serving(kit, folder, "127.0.0.1", 0, Watched(metrics=True), lambda: 3) as served:
            assert folder.metrics.stat().st_mode & 0o777 == 0o600
            served.look()
            link = SiteLink(site, f"127.0.0.1:{served.port}")
            link.join()
            security_event("join refused", "epsilon 2.5 of 3 is spent", who="south")
            security_event("request refused", "your clock is 412 s ahead of the server's; set it", status=401)
            status, text = get(folder.metrics, "/metrics")
            health = get(folder.metrics, "/health")
            assert get(folder.metrics, "/")[0] == 404
            link.close()
    finally:
        os.umask(umask)
    found = numbers(text)
    clock = "your clock is N s ahead of the server's; set it"
    assert status == 200
    assert found.pop("fl_dp_disk_free_bytes") > 0
    assert found.pop('fl_dp_bytes_total{direction="received"}') > 0
    assert found.pop('fl_dp_bytes_total{direction="sent"}') > 0
    assert found == {
        "fl_dp_rounds_done": 3,
        "fl_dp_sites_here": 1,
        "fl_dp_sites_of_roster": 1,
        'fl_dp_security_events_total{event="join refused",reason=""}': 1,
        f'fl_dp_security_events_total{{event="request refused",reason="{clock}"}}': 1,
    }
    assert health == (200, json.dumps({"status": "ok", "rounds_done": 3, "sites_here": 1}))
    assert not folder.metrics.exists()


@pytest.fixture
def metrics(tmp_path):
    return RunMetrics(Hub(loopback_server(tmp_path / "keys", 1).roster), tmp_path, lambda: 0)


def test_a_port_that_is_not_served_is_no_health(metrics, tmp_path, monkeypatch):
    monkeypatch.setattr("threading.enumerate", list)  # other tests may have left a door
    path = tmp_path / "metrics.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))  # by a server that was killed
    with metrics_served(metrics, path):
        status, text = get(path, "/health")
    assert (status, json.loads(text)["status"]) == (503, "the port is not served")


def test_a_flood_of_reasons_makes_few_numbers(metrics, tmp_path):
    with metrics_served(metrics, tmp_path / "metrics.sock"):
        for number in range(999):
            security_event("request refused", "x" * number)
    security_event("banned", "from round 1 on", who="south")  # nobody counts any more
    assert len(metrics.refusals.counts) == 51
    assert metrics.refusals.counts["request refused", "other"] == 999 - 50


def test_a_socket_that_cannot_be_is_refused_in_words(metrics, tmp_path):
    (tmp_path / "metrics.sock").write_text("a file of somebody's")
    deep = tmp_path / ("d" * 90)
    deep.mkdir()
    for path, words in {
        tmp_path / "metrics.sock": r"metrics\.sock: cannot serve --metrics there: .*in use",
        deep / "metrics.sock": "its path is too long; name another folder, --out DIR",
    }.items():
        with pytest.raises(ConfigError, match=words), metrics_served(metrics, path):
            pass
    assert (tmp_path / "metrics.sock").read_text() == "a file of somebody's"
