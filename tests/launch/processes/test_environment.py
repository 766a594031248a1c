from fl_dp.launch.processes.environment import child_environment, cores


def test_flower_is_quiet_and_keeps_its_state_here(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    env = child_environment(tmp_path, threads=2, more={"EXTRA": "1"})
    assert env["FLWR_HOME"] == str(tmp_path)
    assert env["FLWR_TELEMETRY_ENABLED"] == "0"
    assert env["OMP_NUM_THREADS"] == "2"
    assert env["EXTRA"] == "1"


def test_a_number_of_threads_that_the_user_has_set_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert child_environment(tmp_path, threads=8)["OMP_NUM_THREADS"] == "3"


def test_loopback_avoids_a_proxy(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "example.org")
    monkeypatch.delenv("no_proxy", raising=False)
    env = child_environment(tmp_path, threads=1)
    assert env["NO_PROXY"] == "example.org,127.0.0.1,localhost"
    assert env["no_proxy"] == "127.0.0.1,localhost"


def test_there_is_at_least_one_core():
    assert cores() >= 1
