"""`fl_dp.plan`: settings chosen by a fixed rule, from Python."""

from pathlib import Path
from typing import Any

from fl_dp.api.simulate import asked
from fl_dp.config.run import RunConfig
from fl_dp.launch.defaults import check_open
from fl_dp.launch.defaults.proposal import Proposal, propose
from fl_dp.tasks.task import Task


def plan(
    config: str | Path | RunConfig | None = None,
    *,
    task: str | type[Task] = "",
    minutes: float | None = None,
    most_rounds: int | None = None,
    **settings: Any,
) -> Proposal:
    """Choose settings of a simulated run by the rule of docs/defaults.md, as `fl-dp plan --simulate`.

        planned = fl_dp.plan(data="digits", epsilon=3, clients=10, minutes=10)
        result = fl_dp.simulate(planned.config)

    config, task, settings: as in `fl_dp.simulate`; settings that the rule chooses raise ConfigError. minutes:
    time limit of the run; None: no limit. most_rounds: the most rounds allowed. `Proposal.run.reasons`
    explains the choices.

    Only the number and form of the records are used, and nothing is started or paid. Raises what `propose`
    raises.
    """
    request = asked(config, task, settings)
    check_open(name.replace("_", "-") for name in settings)
    limit = None if minutes is None else 60 * minutes
    return propose(request, engine="ray", seconds=limit, most_rounds=most_rounds)
