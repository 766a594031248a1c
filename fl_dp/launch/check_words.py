"""What `fl-dp check` prints: mistakes, what "auto" becomes, costs and memory."""

import statistics
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from fl_dp.config.flat import AUTO
from fl_dp.config.run import RunConfig
from fl_dp.config.run_settings import TURNS
from fl_dp.errors import ExitCode
from fl_dp.launch.check import CheckResult
from fl_dp.launch.processes import cores
from fl_dp.reporting.budget_table import named
from fl_dp.reporting.console import alone_words, epsilon_means, privacy_words, rounded_up
from fl_dp.reporting.reports import NOT_PRIVATE, FederationBudget
from fl_dp.reporting.table import print_table
from fl_dp.reporting.unused import unused_line
from fl_dp.reporting.wording import counted, folded

if TYPE_CHECKING:
    from fl_dp.launch.forecast import ClientSpending, Forecast

Say = Callable[[str], None]
_SHOWN = 10  # clients in a table; if there are more, it shows the largest, the median and the smallest
_OF_PRIVACY = ("noise-multiplier", "delta", "participations")
_OWN = ("clients-per-cpu", "clients-per-gpu")  # decided by what each machine has
_COLUMNS = ("rate", "noise", "steps", "before", "epsilon", "rounds")


def print_check(found: CheckResult, say: Say, *, simulated: bool) -> None:
    """Print everything, the verdict last."""
    for note in found.notes:
        say(f"note: {note}")
    if found.forecast is not None:
        _print_forecast(found.forecast, say)
        for line in memory_lines(found.forecast, simulated=simulated):
            say(line)
    if found.site_metrics is not None:
        for line in found.site_metrics.lines():
            say(line)
    for problem in found.problems:
        say(f"wrong: {problem}")
    say(_verdict(found))


def _print_forecast(forecast: "Forecast", say: Say) -> None:
    config, sizes = forecast.config, forecast.sizes
    say(
        f"{counted(config.clients, 'client')} with {sum(sizes)} {config.unit_name}s: largest {max(sizes)}, "
        f"median {statistics.median(sizes):g}, smallest {min(sizes)}; {config.fit_clients} train in each "
        f"of {counted(config.rounds, 'round')}"
    )
    autos = list(_autos(forecast))
    if autos:
        say("")
        print_table('Values that "auto" becomes', ("key", "value"), autos, left=("key", "value"))
    say("")
    whose = "each client"
    clients = [(one.name, one) for one in forecast.clients]
    if len(clients) > _SHOWN:
        whose = "the clients of the largest, median and least epsilon"
        clients = [(f"{words} ({one.name})", one) for words, one in forecast.spread()]
    title = f"Cost of the whole run for {whose} (steps: per round)"
    if forecast.sampled:
        title += f", in {forecast.most_rounds} of {counted(config.rounds, 'round')}"
    in_sums = forecast.epsilon_alone is not None
    columns = ("client", f"{config.unit_name}s", *_COLUMNS, *(("alone",) if in_sums else ()))
    rows = [
        (*_row(name, one, config, forecast.most_rounds), *([_alone(one)] if in_sums else []))
        for name, one in clients
    ]
    print_table(title, columns, rows, left=("client",))
    say("")
    for line in (*guarantee_lines(forecast), *_running_out(forecast), *drowned_lines(forecast)):
        say(line)


def _autos(forecast: "Forecast") -> Iterator[tuple[str, str]]:
    config, found = forecast.config, forecast.resolved.to_flat()
    for key, value in config.to_flat().items():
        if value != AUTO or key in _OWN or (key in _OF_PRIVACY and not config.private):
            continue
        if found[key] != AUTO:
            yield key, f"{found[key]}"
        elif key == "physical-batch-size" and forecast.memory is not None:
            yield key, f"{forecast.memory.physical_batch_size} (on this machine)"
        elif key == "noise-multiplier":
            yield key, _range([one.noise_multiplier for one in forecast.mechanisms])
        elif key == "delta":
            yield key, _range([one.record.profile.delta for one in forecast.clients])


def _range(values: list[float]) -> str:
    return (
        f"{min(values):g} to {max(values):g}, depending on the client"
        if values
        else "nothing: no client can take part"
    )


def _row(name: str, one: "ClientSpending", config: RunConfig, most: int) -> tuple[str, ...]:
    profile, mechanism = one.record.profile, one.record.mechanism
    known = ("-", "-", "-")
    if mechanism is not None:
        known = (f"{mechanism.sample_rate:.4g}", f"{mechanism.noise_multiplier:g}", str(mechanism.steps))
    return (
        name,
        str(profile.public_size),
        *known,
        rounded_up(one.before),
        f"{rounded_up(one.epsilon)} of {rounded_up(profile.epsilon)}" if config.private else "inf",
        f"{one.rounds} of {most}",
    )


def _alone(one: "ClientSpending") -> str:
    found = one.if_sums_fail(one.record.profile.spent)
    return "-" if found is None else alone_words(found)


def guarantee_lines(forecast: "Forecast") -> Iterator[str]:
    """The guarantee, worded as the run itself words it."""
    config = forecast.config
    if not config.private:
        yield f"at the end: {NOT_PRIVATE} (no epsilon holds)"
        return
    together = FederationBudget(
        largest=forecast.epsilon,
        median=forecast.epsilon,
        least=forecast.epsilon,
        accountants=tuple(sorted({one.record.profile.accountant for one in forecast.clients})),
        arithmetic=config.arithmetic,
        unit=config.unit_name,
        epsilon_alone=forecast.epsilon_alone,
    )
    spent = privacy_words(forecast.epsilon, forecast.epsilon_alone, config.epsilon)
    yield f"at the end: {spent}"
    yield from folded(epsilon_means(together, forecast.delta))
    if forecast.sampled:
        yield from _spread(forecast)


def _spread(forecast: "Forecast") -> Iterator[str]:
    """In how many rounds clients train, what they then spend, and what would use more of it."""
    config, ((least, low), (median, middle), (most, high)) = forecast.config, forecast.usual
    budget = min(config.epsilon, forecast.spread()[1][1].record.profile.epsilon)
    whom = "clients" if config.sampling == TURNS else "nine of ten clients"
    yield (
        f"{whom} train in {least} to {most} of {config.rounds} rounds and spend {rounded_up(low)} to "
        f"{rounded_up(high)} of {rounded_up(budget)}; the median one trains in {median} and spends "
        f"{rounded_up(middle)}"
    )
    planned = int(forecast.resolved.participations) or config.rounds
    if advice := unused_line(config, planned, middle, budget, median):
        yield advice


def _running_out(forecast: "Forecast") -> Iterator[str]:
    config = forecast.config
    declined: dict[str, list[str]] = {}
    ending: dict[int, list[str]] = {}
    for one in forecast.clients:
        if one.record.reason:
            declined.setdefault(one.record.reason, []).append(one.name)
        elif one.rounds < forecast.most_rounds:
            ending.setdefault(one.rounds, []).append(one.name)
    for reason, names in declined.items():
        yield f"cannot take part: {named(names)}: {reason}"
    for rounds, names in sorted(ending.items()):
        which = " of its rounds" if forecast.sampled else ""
        yield f"the budget has no room for a step in round {rounds + 1}{which}: {named(names)}"
    if not forecast.running_out and config.private:
        yield "no budget ends before the last round"
    if forecast.ends is not None:
        about = "about " if forecast.sampled else ""
        yield f"the run would end before {about}round {forecast.ends} of {config.rounds}: budgets are spent"


def drowned_lines(forecast: "Forecast") -> Iterator[str]:
    """Warn if the noise is so large that the run would learn nothing, however long it takes."""
    if forecast.noise_share > 1:
        yield (
            f"note: the model will hardly learn anything: the total noise is {forecast.noise_share:.2g} "
            "times as long as the clipped gradients of all records can be. Choose a larger epsilon, more "
            "records or a smaller model"
        )


def memory_lines(forecast: "Forecast", *, simulated: bool) -> Iterator[str]:
    """The memory of a client's process; nothing if it was not measured."""
    config, memory = forecast.config, forecast.memory
    if memory is None:
        return
    trainers = min(cores(), config.fit_clients) if simulated else config.clients
    total, step = _mib(memory.resident_bytes + memory.step_bytes), _mib(memory.step_bytes)
    yield (
        f"memory: about {total} MiB resident, as ps and top show it, for each process that trains, at most "
        f"{step} MiB of them for a step. {trainers} such processes run, and the server's; they share "
        "libraries, which are about half of a small model's process"
    )


def _mib(size: int) -> int:
    return -(-size // 2**20)


def _verdict(found: CheckResult) -> str:
    if found.exit_code == ExitCode.USAGE:
        return "it would not start"
    if found.exit_code == ExitCode.BUDGET_EXHAUSTED:
        return "it would start but end early"
    if found.server:
        return (
            "the server would start. What its sites spend is not known here: their sizes, ledgers and "
            "limits are their own"
        )
    return "it would run"
