from benchmarks.simulation.rounds import ROUNDS, RoundClock, RoundsEnding, read_lines


def test_a_clock_leaves_a_line_for_each_round(tmp_path):
    clock = RoundClock(tmp_path / "new")
    clock.start()
    clock.tick()
    clock.tick()
    first, second = read_lines(tmp_path / "new" / ROUNDS)
    assert (first["round"], second["round"]) == (1, 2)
    assert 0 <= second["seconds"] < 60
    assert second["driver_peak_bytes"] > 2**20


def test_a_round_counts_once_its_line_is_whole(tmp_path):
    rounds, path = RoundsEnding(tmp_path), tmp_path / ROUNDS
    assert (read_lines(path), rounds.since()) == ([], 0)
    path.write_text('{"round": 1}\n{"rou')
    assert [rounds.since(), rounds.since()] == [1, 0]
    path.write_text('{"round": 1}\n{"round": 2}\n{"round": 3}\n')
    assert rounds.since() == 2
