from fl_dp.launch.processes.log_tail import JsonLines, tail


def test_lines_come_once_and_whole(tmp_path):
    path = tmp_path / "rounds.jsonl"
    lines = JsonLines(path)
    assert lines.new() == []
    path.write_text('{"round": 1}\n{"rou')
    assert lines.new() == [{"round": 1}]
    assert lines.new() == []
    with path.open("a") as file:
        file.write('nd": 2}\n{"round": 3}\n')
    assert lines.new() == [{"round": 2}, {"round": 3}]
    assert lines.new() == []


def test_tail_of_a_log(tmp_path):
    path = tmp_path / "log"
    assert tail(path) == "  (no output)"
    path.write_bytes(b"one\ntwo \xff\nthree\n")
    assert tail(path, 2) == "  two \N{REPLACEMENT CHARACTER}\n  three"
