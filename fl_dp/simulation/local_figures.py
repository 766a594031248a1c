"""Local figures: each simulated client's model, measured on the records that it held out of training.

These metrics are not noised and no budget pays for them: no epsilon covers held-out records. So they are only
for the person who runs the simulation and holds all its data. They are in a file of their own, which no page
and nothing that is signed reads.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fl_dp.choices import METRICS
from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.durable_files import write_whole
from fl_dp.errors import ConfigError
from fl_dp.federation.client.kept_states import FOLDER, KeptStates
from fl_dp.federation.client.registration import is_public, numbered
from fl_dp.federation.devices import find_device
from fl_dp.federation.server.evaluation import evaluate
from fl_dp.models.weights_file import load_weights
from fl_dp.reporting.reports import NOT_PRIVATE
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.wording import counted
from fl_dp.schema import Count, read_json, to_json
from fl_dp.tasks.load import in_task_code, new_model, task_of
from fl_dp.tasks.metric import Metric
from fl_dp.tasks.records import divided, load_parts
from fl_dp.training.kept import OWN, read_state
from fl_dp.training.local_algorithm import has_own_models

LOSS = "loss"


@dataclass(frozen=True, slots=True)
class LocalFigure:
    """One metric over all measured clients.

    spread: the standard deviation. worst_tenth: the mean of the worst tenth of the clients, at least of one;
    a metric of the user's own counts as better the larger it is. clients: those for whom it is defined.
    """

    mean: float
    spread: float
    worst_tenth: float
    clients: Count


@dataclass(frozen=True, slots=True)
class OfClient:
    """records: how many were measured. metrics: the task's, and the loss; None where one is not defined."""

    client: Count
    records: Count
    metrics: dict[str, float | None]


@dataclass(frozen=True, slots=True)
class LocalFigures:
    """figures: by metric. Clients that are left out: untrained have no model of their own, no_records hold no
    record out.
    """

    figures: dict[str, LocalFigure]
    clients: tuple[OfClient, ...]
    untrained: Count
    no_records: Count


def wanted(config: RunConfig, asked: bool | None) -> bool:
    """Whether a simulation is to measure local figures. asked: by its caller; None: if the data are public.

    ConfigError if no client holds records out.
    """
    if asked and not config.test:
        raise ConfigError(
            "local_figures = True: no client holds records out of training; add test = 0.2, the share of "
            "each client's records that is held out."
        )
    return bool(config.test) and _is_public(config) if asked is None else asked


def _is_public(config: RunConfig) -> bool:
    return config.public_data or is_public(config)


def measure(config: RunConfig, client: ClientConfig, folder: RunFolder) -> LocalFigures:
    """Measure every client's model on its held-out records, after the run.

    That is the run's model; with personal parameters or mr-mtl, with the client's own ones in place. client:
    settings of one of them; the key in its ledger splits records as it did for training.
    """
    train, parts = load_parts(config)
    _, held_out = divided(config, client, train, parts)  # it has the ledger's key
    task, device = task_of(config), find_device(config.device)
    task.form, task.class_names = train.form, train.classes
    model, weights = new_model(task), load_weights(folder.model(private=config.private))
    have_own = has_own_models(config.local_algorithm, config.personal)
    kept = KeptStates(folder.clients / FOLDER)
    found, untrained, no_records = list[OfClient](), 0, 0
    for number in range(config.clients):
        own = read_state(kept.last(str(number))).get(OWN, {}) if have_own else {}
        records = held_out(numbered(client, number, config.clients), b"").counted
        if have_own and not own:
            untrained += 1
        elif records is None:
            no_records += 1
        else:
            model.load_state_dict(weights)
            model.load_state_dict(own, strict=False)  # a tied parameter only has its first name
            with in_task_code(type(task), "its local figures"):
                one = evaluate(model, records, task, device, config.metric_names)
            found.append(OfClient(number, len(records), _finite({**one.metrics, LOSS: one.loss})))
    return LocalFigures(_figures(found), tuple(found), untrained, no_records)


def _finite(metrics: Mapping[str, float | None]) -> dict[str, float | None]:
    return {name: one if one is not None and math.isfinite(one) else None for name, one in metrics.items()}


def _figures(clients: Sequence[OfClient]) -> dict[str, LocalFigure]:
    names = dict.fromkeys(name for one in clients for name in one.metrics)
    values = {name: [v for one in clients if (v := one.metrics.get(name)) is not None] for name in names}
    return {name: figure(name, found) for name, found in values.items() if found}


def figure(name: str, values: Sequence[float]) -> LocalFigure:
    """The figure of the metric of that name, from the clients' values."""
    worst_first = np.sort(values) if _larger_is_better(name) else np.sort(values)[::-1]
    tenth = worst_first[: math.ceil(len(values) / 10)]
    return LocalFigure(float(np.mean(values)), float(np.std(values)), float(tenth.mean()), len(values))


def _larger_is_better(name: str) -> bool:
    kind = name.partition("[")[0]  # NAME[LABEL] is of a class or subgroup
    return name != LOSS and not (kind in METRICS.names() and METRICS.load(kind, Metric).smaller_is_better)


def write(found: LocalFigures, folder: RunFolder) -> None:
    """Write local.json, which its owner alone can read."""
    write_whole(folder.local, lambda file: file.write(to_json(LocalFigures, found)), secret=True)


def read(folder: RunFolder) -> LocalFigures:
    """The run's local figures; ConfigError without any, or if their file is damaged."""
    try:
        return read_json(LocalFigures, folder.local.read_bytes())
    except FileNotFoundError:
        raise ConfigError(
            f"{folder.local}: the run has no local figures. A finished simulation has them with test = 0.2 "
            "and data that are public, or declared so (public-data = true), or with local_figures=True."
        ) from None
    except ConfigError as error:
        raise ConfigError(f"{folder.local}: {error}") from None


def words(found: LocalFigures, config: RunConfig) -> Iterator[str]:
    """Lines for the console: the first metric, who is left out, and that no epsilon covers these records."""
    first = next(iter(found.figures.items()), None)
    if first is not None:
        name, one = first
        yield (
            f"each client's model on its own held-out records: {name} mean {one.mean:.3f}, spread "
            f"{one.spread:.3f}, worst tenth {one.worst_tenth:.3f} ({counted(one.clients, 'client')})"
        )
    left_out = ((found.untrained, "that never trained"), (found.no_records, "without held-out records"))
    if missing := [f"{counted(count, 'client')} {why}" for count, why in left_out if count]:
        yield f"not measured: {', '.join(missing)}"
    public = "" if _is_public(config) else f"{NOT_PRIVATE}: "
    yield f"{public}no epsilon covers held-out records: these figures are not noised"
