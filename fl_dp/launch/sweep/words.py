"""What a sweep says before it starts: what it will do and cost, or why it is not started."""

from collections.abc import Callable, Iterator, Sequence

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.launch.check_words import how_busy
from fl_dp.launch.forecast import Timing
from fl_dp.launch.spending import ClientSpending
from fl_dp.launch.sweep.costs import SweepCost, noise_for_all
from fl_dp.launch.sweep.plan import SweepPlan
from fl_dp.launch.sweep.sweep_file import RequestedRun
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.reports import NOT_PRIVATE
from fl_dp.reporting.table import print_table
from fl_dp.reporting.wording import counted, rough_duration

Say = Callable[[str], None]
_SHOWN = 20  # most runs in a table; points of equal cost share a line
_ON_PUBLIC_DATA = (
    "Choose settings on public data, where nobody's privacy is at stake: the same config with "
    'data = "digits".',
    "Or choose them on synthetic records of the same form, with public = true in the sweep file.",
)
_INSTEAD = "Or: " + " ".join(_ON_PUBLIC_DATA)


def announce(runs: Sequence[RequestedRun], plan: SweepPlan, cost: SweepCost, say: Say) -> None:
    """What will be done, on whose data, and what it costs."""
    points = counted(len({run.point for run in runs}), "combination")
    seeds = counted(len({run.seed for run in runs}), "seed")
    say(f"{counted(len(runs), 'run')}: {points}, {seeds}; all clients are simulated")
    whose = (
        f"are private: every run's updates are seen, so all runs pay in full from the ledger in {plan.ledger}"
    )
    if plan.public:
        whose = "are public or synthetic: each run is a trial with its own ledger in its folder"
    for data in dict.fromkeys(one.config.data for one in runs):
        say(f"the data {data} {whose}")
    for note in dict.fromkeys(note for one in runs for note in one.notes):
        say(note)
    if blind := sum(one.config.evaluate == "off" for one in runs):
        which = "these runs measure" if blind == len(runs) else f"{blind} of these runs measure"
        say(
            f'note: {which} nothing: evaluate = "off" leaves accuracy and loss empty, so they cannot be '
            'used to choose. If the server has test data, set evaluate = "server".'
        )
    _print_costs(runs, cost)
    if cost.conflicts:
        return
    most = "" if cost.exactly else "at most "
    what = f"{most}epsilon {rounded_up(cost.epsilon)} at delta {cost.delta:g}"
    if plan.public:
        say(f"all runs together: on private data they would cost {what}{beside_unprotected(plan)}")
    else:
        say(f"all runs together: {what} for these data, including what they had spent before")


def time_words(timings: Sequence[Timing], at_once: int) -> str:
    """How long the runs take, `at_once` at a time; they share the cores."""
    rounds, around = (sum(getattr(one, what) for one in timings) for what in ("rounds", "around"))
    whole = rough_duration(rounds + around / at_once)
    return (
        f"estimated time: about {whole}: {rough_duration(rounds)} for the rounds of "
        f"{counted(len(timings), 'run')}, the rest to start and finish each; {at_once} at a time. "
        f"Measured with random numbers on this machine, {how_busy(max(one.slowness for one in timings))}"
    )


def _print_costs(runs: Sequence[RequestedRun], cost: SweepCost) -> None:
    lines: dict[tuple[str, ...], list[str]] = {}
    for one, run in zip(runs, cost.runs, strict=True):
        lines.setdefault((one.point, *_cells(one.config, run)), []).append(str(one.seed))
    rows = [(key[0], ", ".join(seeds), *key[1:]) for key, seeds in lines.items()]
    columns = ("run", "seeds", "rounds", "steps", "noise", "epsilon", "of")
    title = "each run alone, for the client that pays most" if cost.exactly else "each run alone, at most"
    print_table(title, columns, rows[:_SHOWN], left=("run", "seeds"))
    if len(rows) > _SHOWN:
        print(f"... and {len(rows) - _SHOWN} more lines")


def _cells(config: RunConfig, run: ClientSpending) -> tuple[str, ...]:
    rounds = str(config.rounds) if run.rounds >= config.rounds else f"{run.rounds} of {config.rounds}"
    if run.entry is None:
        return rounds, "0", "", rounded_up(0.0), f"{config.epsilon:g}"
    noise, of = f"{run.entry.noise_multiplier:g}", f"{config.epsilon:g}"
    if not run.entry.private:
        noise, of = "none", NOT_PRIVATE
    return rounds, str(run.entry.steps), noise, rounded_up(run.alone), of


def beside_unprotected(plan: SweepPlan) -> str:
    """Said beside a total when some runs have no privacy: they are not in it."""
    if all(run.config.get("privacy") != "off" for run in plan.runs):
        return ""
    return ' without the runs with privacy = "off"; with these no epsilon would hold'


def check_affordable(runs: Sequence[RequestedRun], plan: SweepPlan, cost: SweepCost) -> None:
    """Raise ConfigError if runs on private data would not be what their config asks for."""
    for one in runs:
        if not plan.public and not one.config.private:
            raise ConfigError(
                f'{one.name}: privacy = "off" on private data: no epsilon would hold for them afterwards. '
                f"{_INSTEAD}"
            )
    for number, why in cost.conflicts:
        raise ConfigError(f"nothing was started: {runs[number].name} {why}. {_INSTEAD}")
    if plan.vary_mechanism and cost.before:
        raise ConfigError(
            f"vary-mechanism: the ledger in {plan.ledger} has earlier rounds on these data, so nobody can "
            "say that sample rate and noise were fixed before any result was seen (docs/privacy.md). "
            f"{_INSTEAD}"
        )
    for number, why in cost.problems:
        if plan.public:
            raise ConfigError(f"{runs[number].name}: {why}.")
        more = f" (and {len(cost.problems) - 1} more)" if len(cost.problems) > 1 else ""
        raise ConfigError(
            f"nothing was started: {runs[number].name}{more}: {why}.\nData keep one sample rate, one noise "
            "multiplier and one budget over all runs (docs/privacy.md). What you can do:"
            + "".join(f"\n  - {way}" for way in _ways_out(runs, plan, cost))
        )


def _ways_out(runs: Sequence[RequestedRun], plan: SweepPlan, cost: SweepCost) -> Iterator[str]:
    """What the user may do instead, one option each."""
    if noise := noise_for_all(runs, cost):
        yield (
            f"Use one noise for all runs: noise-multiplier = {noise:g} keeps all of them within epsilon "
            f"{min(one.config.epsilon for one in runs):g}; then sweep only settings that do not change "
            "sample rate and noise, such as learning-rate."
        )
    if not plan.vary_mechanism:
        yield (
            "Set vary-mechanism = true in the sweep file to let sample rate and noise vary, for data of "
            "which nobody has seen a result; docs/privacy.md says what is claimed then."
        )
    yield from _ON_PUBLIC_DATA


def needs_ledger(runs: Sequence[RequestedRun]) -> ConfigError:
    private = next(one for one in runs if not one.public)
    name = private.config.task or private.config.data
    return ConfigError(
        f"{name} counts as private: every run's updates are seen, so each run must be paid for. Name the "
        f"lasting ledger of these data, --ledger DIR. {_INSTEAD}"
    )
