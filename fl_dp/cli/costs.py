"""`fl-dp budget` and `fl-dp calibrate`: what a plan of training costs, and the noise that it needs."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fl_dp.accounting.accountant import DEFAULT_ACCOUNTANT
from fl_dp.choices import ACCOUNTANTS
from fl_dp.errors import ConfigError

if TYPE_CHECKING:
    from fl_dp.accounting.training_plan import TrainingPlan

_ROUNDS = """Rounds are those that the client takes part in. If a server samples 10 of 100 clients in each
of 400 rounds, plan for about 40. A client's ledger stops at its budget, whatever was planned.

Epsilon bounds how much one record of the client changes what others see of its updates; smaller is
more private.
"""
BUDGET_HELP = f"""Compute the epsilon that a training plan costs a client.

\b
A client with 10,000 records takes part in 40 rounds of 5 epochs. What does that cost?
  fl-dp budget --records 10000 --batch-size 256 --local-epochs 5 --rounds 40 --noise-multiplier 3.3
How many of these rounds does a budget of epsilon 2 allow?
  ... --epsilon 2
What do 10 more rounds with less noise cost?
  ... --then rounds=10,noise-multiplier=3
What do 400 steps cost in secure sums of 10 clients, one of which may drop out?
  ... --rounds 400 --steps 1 --members 10 --dropouts 1

{_ROUNDS}"""
CALIBRATE_HELP = f"""Compute the least noise that keeps a plan within a budget.

\b
A client with 10,000 records takes part in 40 rounds of 5 epochs and may spend epsilon 3. How much noise?
  fl-dp calibrate --records 10000 --batch-size 256 --local-epochs 5 --rounds 40 --epsilon 3
How much, if 10 more rounds with their own noise count as well?
  ... --then rounds=10,local-epochs=1,noise-multiplier=1.5

The answer has 4 digits and is enough; a thousandth less would not be.

{_ROUNDS}"""

Records = Annotated[int, typer.Option(metavar="N", help="Records of the client.")]
BatchSize = Annotated[
    int, typer.Option(metavar="N", help="Expected number of records in the random draw of a step.")
]
Rounds = Annotated[int, typer.Option(metavar="N", help="Rounds that the client takes part in.")]
LocalEpochs = Annotated[
    float | None, typer.Option(metavar="X", help="Expected passes over the records in a round [default: 1].")
]
Steps = Annotated[int | None, typer.Option(metavar="N", help="Steps in a round, instead of --local-epochs.")]
Noise = Annotated[
    float | None,
    typer.Option(metavar="X", help="Standard deviation of the noise divided by the clipping bound."),
]
Delta = Annotated[
    str,
    typer.Option(metavar="X", help="A number, or auto: the largest power of ten below 1/N, at most 1e-5."),
]
AccountantName = Annotated[
    str,
    typer.Option(
        "--accountant",
        metavar="NAME",
        help=f"{' or '.join(ACCOUNTANTS.built_in())}; docs/accounting.md compares them.",
    ),
]
Then = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE,...",
        help="More rounds after these; repeatable. Keys: rounds, batch-size, local-epochs, steps, "
        "noise-multiplier; a key that is left out stays as it is.",
    ),
]
Members = Annotated[
    int | None,
    typer.Option(
        metavar="K", help="Secure sums: number of clients in a sum; the noise is then that of the whole sum."
    ),
]
Dropouts = Annotated[int, typer.Option(metavar="D", help="Secure sums: number of members that may drop out.")]
Colluders = Annotated[
    int, typer.Option(metavar="C", help="Secure sums: number of members that may collude with the server.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Budget = Annotated[float | None, typer.Option(metavar="X", help="Budget; says how much of the plan fits.")]
Target = Annotated[float, typer.Option(metavar="X", help="Budget: epsilon.")]

_READ: Mapping[str, tuple[Callable[[str], int | float], str]] = {
    "rounds": (int, "an integer"),
    "batch-size": (int, "an integer"),
    "local-epochs": (float, "a number"),
    "steps": (int, "an integer"),
    "noise-multiplier": (float, "a number"),
}


def budget(
    records: Records,
    batch_size: BatchSize,
    rounds: Rounds = 1,
    local_epochs: LocalEpochs = None,
    steps: Steps = None,
    noise_multiplier: Noise = None,
    epsilon: Budget = None,
    delta: Delta = "auto",
    accountant: AccountantName = DEFAULT_ACCOUNTANT,
    then: Then = None,
    members: Members = None,
    dropouts: Dropouts = 0,
    colluders: Colluders = 1,
    as_json: Json = False,
) -> None:
    first = _first(batch_size, rounds, local_epochs, steps, noise_multiplier, members)
    plan = _in_sums(_plan(records, first, then), members, dropouts, colluders)
    if any(phase.noise_multiplier is None for phase in plan.phases):
        raise ConfigError("--noise-multiplier: missing; fl-dp calibrate finds the noise that a budget needs.")
    ACCOUNTANTS.check(accountant, "--accountant")
    at = _delta(delta, records)
    if epsilon is not None:
        _check_epsilon(epsilon)
    _answer(plan, at, accountant, epsilon, as_json)


def calibrate(
    records: Records,
    batch_size: BatchSize,
    epsilon: Target,
    rounds: Rounds = 1,
    local_epochs: LocalEpochs = None,
    steps: Steps = None,
    delta: Delta = "auto",
    accountant: AccountantName = DEFAULT_ACCOUNTANT,
    then: Then = None,
    members: Members = None,
    dropouts: Dropouts = 0,
    colluders: Colluders = 1,
    as_json: Json = False,
) -> None:
    from fl_dp.accounting.calibration import calibrate_plan

    first = _first(batch_size, rounds, local_epochs, steps, None, members)
    plan = _in_sums(_plan(records, first, then), members, dropouts, colluders)
    ACCOUNTANTS.check(accountant, "--accountant")
    at = _delta(delta, records)
    _check_epsilon(epsilon)
    _answer(calibrate_plan(plan, epsilon, at, accountant=accountant), at, accountant, epsilon, as_json)


def _first(
    batch_size: int,
    rounds: int,
    local_epochs: float | None,
    steps: int | None,
    noise: float | None,
    members: int | None,
) -> dict[str, Any]:
    """The first rounds, by the keys of --then.

    A round of a secure sum is one step, unless something else is requested, which is then refused.
    """
    if steps is not None and local_epochs is not None:
        raise ConfigError("--steps, --local-epochs: give only one of the two.")
    if steps is None and local_epochs is None:
        steps, local_epochs = (None, 1.0) if members is None else (1, None)
    return {
        "rounds": rounds,
        "batch-size": batch_size,
        "local-epochs": local_epochs,
        "steps": steps,
        "noise-multiplier": noise,
    }


def _plan(records: int, first: Mapping[str, Any], then: Sequence[str] | None) -> "TrainingPlan":
    """The first rounds, then those that each --then changes. Its steps or local epochs replace both."""
    from fl_dp.accounting.training_plan import Phase, TrainingPlan, steps_of_epochs

    wanted = [first]
    for text in then or ():
        given = dict(_read(part.strip()) for part in text.split(","))
        lengths = given.keys() & {"steps", "local-epochs"}
        if len(lengths) > 1:
            raise ConfigError(f"--then {text}: give steps or local-epochs, not both.")
        without = {"steps": None, "local-epochs": None} if lengths else {}
        wanted.append({**first, **without, **given})
    phases = []
    for one in wanted:
        batch, steps = one["batch-size"], one["steps"]
        if steps is None:
            steps = steps_of_epochs(records, batch, one["local-epochs"])
        phases.append(Phase(records, batch, one["rounds"], steps, one["noise-multiplier"]))
    return TrainingPlan(tuple(phases))


def _read(part: str) -> tuple[str, int | float]:
    key, equals, value = part.partition("=")
    if key not in _READ or not equals:
        raise ConfigError(f"--then {part}: expected KEY=VALUE, KEY one of {', '.join(_READ)}.")
    read, expected = _READ[key]
    try:
        return key, read(value)
    except ValueError:
        raise ConfigError(f"--then {part}: expected {expected}.") from None


def _in_sums(plan: "TrainingPlan", members: int | None, dropouts: int, colluders: int) -> "TrainingPlan":
    """The plan's rounds as secure sums of that many members; unchanged without members."""
    from fl_dp.accounting.shares import honest_shares

    if members is None:
        if (dropouts, colluders) != (0, 1):
            raise ConfigError("--members: missing; --dropouts and --colluders are for secure sums.")
        return plan
    if any(phase.steps > 1 for phase in plan.phases):
        raise ConfigError(
            "--members: a round of a secure sum is one local step; give --steps 1, and the steps as --rounds."
        )
    shares = honest_shares(members, dropouts, colluders)
    return type(plan)(tuple(replace(one, shares=shares) for one in plan.phases))


def _answer(
    plan: "TrainingPlan", delta: float, accountant: str, epsilon: float | None, as_json: bool
) -> None:
    from fl_dp.reporting.plan_report import print_plan, report_plan
    from fl_dp.reporting.reports import strict_json

    report = report_plan(plan, delta, accountant, epsilon)
    if as_json:
        typer.echo(json.dumps(strict_json(report), allow_nan=False, indent=2))
    else:
        print_plan(report)


def _delta(text: str, records: int) -> float:
    from fl_dp.accounting.budget import auto_delta

    if text == "auto":
        return auto_delta(records)
    try:
        delta = float(text)
    except ValueError:
        delta = math.nan
    if not 0.0 < delta < 1.0:
        raise ConfigError(f"--delta {text}: expected a number between 0 and 1, or auto.")
    return delta


def _check_epsilon(epsilon: float) -> None:
    if not 0.0 < epsilon < math.inf:
        raise ConfigError(f"--epsilon {epsilon:g}: expected a finite number > 0.")
