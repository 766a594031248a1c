from fl_dp.launch.processes import child_environment


def test_flower_is_quiet_and_keeps_its_state_here_and_what_the_user_has_set_stays(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("NO_PROXY", "example.org")
    monkeypatch.delenv("no_proxy", raising=False)
    wanted = {
        "FLWR_HOME": str(tmp_path), "FLWR_TELEMETRY_ENABLED": "0", "OMP_NUM_THREADS": "2", "EXTRA": "1",
        "NO_PROXY": "example.org,127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost",
    }  # fmt: skip
    assert wanted.items() <= child_environment(tmp_path, threads=2, more={"EXTRA": "1"}).items()
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert child_environment(tmp_path, threads=8)["OMP_NUM_THREADS"] == "3"
