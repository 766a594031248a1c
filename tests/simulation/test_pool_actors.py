"""What is said of an actor that ended: never what its own error says, which may quote data."""

from ray.exceptions import RayTaskError

from fl_dp.simulation.pool_actors import words_of


def test_an_actors_own_error_is_named_by_its_class():
    error = RayTaskError("train", "a remote traceback with patient 17", ValueError("patient 17"))
    assert words_of(error) == "ValueError was raised in it"


def test_of_rays_own_words_the_last_line_is_taken():
    assert words_of(RuntimeError("first\n  last\tline \n")) == "last line"
