import pickle

from fl_dp.config.mistakes import Mistake, SettingsError

TWO = SettingsError([Mistake("a", "a = 1: wrong."), Mistake("b", "b = 2: wrong.")])


def test_one_is_a_line_and_several_are_a_list():
    assert str(SettingsError([Mistake("a", "a = 1: wrong.")])) == "a = 1: wrong."
    assert str(TWO) == "2 mistakes:\n  a = 1: wrong.\n  b = 2: wrong."


def test_each_is_told_with_its_own_place():
    placed = TWO.placed(lambda one: f"at {one.key}: {one.words}")
    assert str(placed) == "2 mistakes:\n  at a: a = 1: wrong.\n  at b: b = 2: wrong."
    assert [one.key for one in placed.mistakes] == ["a", "b"]


def test_it_crosses_processes_whole():
    copy = pickle.loads(pickle.dumps(TWO))
    assert copy.mistakes == TWO.mistakes
    assert str(copy) == str(TWO)
