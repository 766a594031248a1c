"""What `fl-dp plan` prints and writes: each setting with its reason, and the run's costs."""

from collections.abc import Callable
from textwrap import wrap

import tomli_w

from fl_dp.config.flat import Scalar
from fl_dp.config.run import RunConfig
from fl_dp.config.values import key_of
from fl_dp.launch.check_words import drowned_lines, guarantee_lines
from fl_dp.launch.defaults import CHOSEN
from fl_dp.launch.defaults.proposal import Proposal
from fl_dp.reporting.table import print_table
from fl_dp.reporting.wording import counted

_WIDTH = 100
_ALWAYS = ("data", "model", "clients", "min_clients", "fit_clients", "epsilon", "delta")
_SOURCES = "fl-dp plan chose these settings; docs/planning.md has the rule, its sources and its measurements."


def print_proposal(found: Proposal, say: Callable[[str], None]) -> None:
    for note in found.notes:
        say(f"note: {note}")
    config, forecast = found.config, found.run.forecast
    say(
        f"{config.task or f'{config.model} on {config.data}'}, epsilon {config.epsilon:g}: "
        f"{counted(config.clients, 'client')} with {counted(sum(forecast.sizes), config.unit_name)}; "
        f"{config.fit_clients} train in each round"
    )
    flat = config.to_flat()
    rows = [(key_of(one), _value(flat[key_of(one)]), why) for one, why in found.run.in_order()]
    say("")
    print_table("Settings by the rule", ("key", "value", "why"), rows, left=("key", "value", "why"))
    noises = [one.noise_multiplier for one in forecast.mechanisms]
    becomes = " to ".join(f"{noise:g}" for noise in sorted({min(noises), max(noises)}))
    for line in (
        "",
        f"noise-multiplier auto becomes {becomes}",
        *guarantee_lines(forecast),
        f"the total noise is {forecast.noise_share:.2g} times as long as a sum of gradients that all "
        "agree; the smaller, the better for the model",
        *drowned_lines(forecast),
    ):
        say(line)


def run_file_text(found: Proposal, base: RunConfig) -> str:
    """The run as a TOML file: what was asked for, then what was chosen, each with its reason.

    base: what was asked for, with paths as the user wrote them; defaults are left out.
    """
    defaults, flat = RunConfig().to_flat(), found.config.to_flat()
    chosen, always = set(map(key_of, CHOSEN)), set(map(key_of, _ALWAYS))
    lines = [
        _line(key, value)
        for key, value in base.to_flat().items()
        if key not in chosen and (key in always or value != defaults[key])
    ]
    lines += ["", *(f"# {line}" for line in wrap(_SOURCES, _WIDTH))]
    for field, why in found.run.in_order():
        lines += ["", *(f"# {line}" for line in wrap(why, _WIDTH)), _line(key_of(field), flat[key_of(field)])]
    return "\n".join(lines) + "\n"


def _line(key: str, value: Scalar) -> str:
    return tomli_w.dumps({key: value}).rstrip("\n")


def _value(value: Scalar) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
