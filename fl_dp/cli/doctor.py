"""`fl-dp doctor`: what is installed, what the machine has, and what is wrong with either."""

import typer

from fl_dp.cli.common import say


def doctor() -> None:
    """Say what is installed and what is missing.

    The answer names no records, keys or spending: put it into a report of a problem. Exit code 1 if
    something is wrong.
    """
    from fl_dp.launch.doctor import find_environment  # late: imports PyTorch

    found = list(find_environment())
    width = max(len(one.name) for one in found)
    for one in found:
        say(f"{one.name:{width}}  {one.words}")
    wrong = [one for one in found if one.wrong]
    for one in wrong:
        say(f"wrong: {one.name}: {one.wrong}.")
    if wrong:
        raise typer.Exit(1)
    say("nothing is wrong")
