"""What is public says what it takes, gives and raises, and its example runs as written."""

import doctest
import inspect
import subprocess
import sys
import warnings

import pytest

import fl_dp
from fl_dp.federation.server.strategy import StrategyParts

# The first makes runs/first, which the others read; in a process of its own, as it starts Ray.
OF_A_RUN = ["simulate", "load_run", "Result", "predict", "encode", "session", "study", "Results"]
OF_A_PROCESS = [name for name in fl_dp.__all__ if name not in OF_A_RUN]
FUNCTIONS = [name for name in fl_dp.__all__ if inspect.isfunction(getattr(fl_dp, name))]


def failures(thing):
    """How many lines of its example do not give what it says; what they give is printed."""
    found = [one for one in doctest.DocTestFinder(recurse=False).find(thing, globs={}) if one.examples]
    assert found, "it has no example"
    return doctest.DocTestRunner().run(found[0]).failed


@pytest.mark.parametrize("thing", [*(getattr(fl_dp, name) for name in OF_A_PROCESS), StrategyParts])
def test_an_example_runs_as_written(thing):
    with warnings.catch_warnings():
        assert failures(thing) == 0


def test_the_examples_of_a_run_run_as_written(tmp_path):
    ran = subprocess.run(
        [sys.executable, __file__], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_says_what_it_takes_gives_and_raises(name):
    said = inspect.getdoc(getattr(fl_dp, name))
    arguments = said.partition("Args:\n")[2].partition("Returns:\n")[0]
    assert "Returns:\n" in said
    assert "Raises:\n" in said
    for argument in inspect.signature(getattr(fl_dp, name)).parameters:
        assert f"    {argument}: " in arguments, argument


if __name__ == "__main__":
    sys.exit(sum(failures(getattr(fl_dp, name)) for name in OF_A_RUN))
