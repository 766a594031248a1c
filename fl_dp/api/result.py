"""The result of a run in Python: `fl_dp.load_run`."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from fl_dp.api.rebuild import rebuilt
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.federation.client.kept_states import FOLDER, KeptStates
from fl_dp.launch.resumption import kept_config
from fl_dp.optional import require_package
from fl_dp.records import CLIENT_STATUSES
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.report_json import strict_json
from fl_dp.reporting.reports import RoundReport, of_one_class
from fl_dp.reporting.run_files import Run
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.simulation.local_figures import LocalFigure, LocalFigures
from fl_dp.simulation.local_figures import read as read_figures
from fl_dp.tasks.description import ModelDescription
from fl_dp.tasks.task import Task
from fl_dp.training.kept import OWN, read_state
from fl_dp.training.local_algorithm import has_own_models

Row = dict[str, Any]


@dataclass(frozen=True, repr=False)
class Result:
    """A finished run, or an unfinished one as far as it has got.

    Attributes:
        folder: Where its files are.
        settings: The settings that were used, every key with its type.
        summary: summary.json; empty while the run goes on.
        task: Code that rebuilds the model, as given by the caller; None: only what is built in.
        model_name: The same for a model.

    Example:
        >>> import fl_dp, torch
        >>> result = fl_dp.load_run("runs/first")
        >>> result.settings.clients, len(result.rounds), len(result.budgets)
        (2, 1, 2)
        >>> result.model(torch.zeros(5, 1, 8, 8)).shape
        torch.Size([5, 10])
    """

    folder: Path
    settings: RunConfig
    summary: Mapping[str, Any]
    task: type[Task] | str | None = None
    model_name: str | None = None

    def __repr__(self) -> str:
        """Where it is, how it ended, what came out and what it cost; a few lines."""
        done = list(Run(RunFolder(self.folder)).rounds())
        spent = "no privacy" if not self.private else "not known yet"
        if self.private and self.epsilon is not None:
            of = f"{rounded_up(self.epsilon)} of {self.settings.epsilon:g}"
            spent = f"{of}, at delta {self.delta:g}{self._spread}"
        lines = [
            f"Result in {self.folder}: {self.status or 'unfinished'}",
            f"  rounds   {len(done)} of {self.settings.rounds}, {self.settings.clients} clients",
            f"  model    {self.settings.model}" if self.settings.model else "  model    the task's own",
            f"  epsilon  {spent}",
        ]
        every = done[-1].metrics if done else {}
        metrics = {name: value for name, value in every.items() if not of_one_class(name)}
        said = {name: "hidden" if value is None else f"{value:.4g}" for name, value in metrics.items()}
        lines += [f"  {name:<8} {value}" for name, value in said.items()]
        if parts := len(every) - len(metrics):
            lines.append(f"  and {parts} of single classes or subgroups: result.rounds has a column for each")
        return "\n".join(lines)

    @property
    def _spread(self) -> str:
        """What the median client and the client with the least epsilon spent."""
        together = self.summary.get("federation") or {}
        if len(self.summary.get("clients", ())) < 2 or not together:
            return ""
        return f" (median client {rounded_up(together['median'])}, least {rounded_up(together['least'])})"

    def plot(self) -> Any:
        """The first metric, and epsilon, over rounds: a matplotlib Figure. ConfigError without matplotlib."""
        require_package("matplotlib", "plot()")
        from matplotlib.figure import Figure  # late: few programs draw

        done = list(Run(RunFolder(self.folder)).rounds())
        metric = next((name for line in done for name in line.metrics), "")
        figure = Figure(figsize=(7, 3), layout="constrained")
        shown = [(metric, [line.metrics.get(metric) for line in done])] if metric else []
        shown += [("epsilon", [line.epsilon for line in done])] if self.private else []
        for number, (name, values) in enumerate(shown, 1):
            axes = figure.add_subplot(1, len(shown), number, xlabel="round", ylabel=name)
            points = [(line.round, one) for line, one in zip(done, values, strict=True) if one is not None]
            axes.plot([at for at, _ in points], [one for _, one in points], marker=".")
        return figure

    @property
    def status(self) -> str:
        """ "completed", "budget-exhausted" or "failed"; empty while the run goes on."""
        return str(self.summary.get("status", ""))

    @property
    def private(self) -> bool:
        """Whether the clients trained with differential privacy. If not, no epsilon holds."""
        return self.settings.private

    @property
    def epsilon(self) -> float | None:
        """What this run has cost its clients; None if no epsilon holds.

        `budgets` has what each client's ledger shows.
        """
        return self.summary.get("epsilon")

    @property
    def delta(self) -> float | None:
        """The delta at which `epsilon` holds."""
        return self.summary.get("delta")

    @cached_property
    def rounds(self) -> Any:
        """One row per round: a pandas DataFrame, or a list of dicts if pandas is not installed.

        Metrics are columns by name; trained, declined, failed and idle count clients.
        """
        return _table([_round(line) for line in Run(RunFolder(self.folder)).rounds()])

    @cached_property
    def budgets(self) -> Any:
        """One row per client, as `rounds`: epsilon spent of its budget, at its delta, by its accountant."""
        clients = self.summary.get("clients", {})
        return _table([{"client": name, **budget} for name, budget in clients.items()])

    @cached_property
    def local(self) -> Any:
        """One row per measured client, as `rounds`: how its model does on its own held-out records.

        ConfigError if the run has no local figures.
        """
        return _table(
            [{"client": one.client, "records": one.records, **one.metrics} for one in self._local.clients]
        )

    @property
    def local_figures(self) -> Mapping[str, LocalFigure]:
        """By metric, over the clients of `local`: mean, spread and the mean of the worst tenth.

        They are not noised, and no epsilon covers the held-out records: keep them to yourself unless the data
        are public. Clients that hold no record out are left out and, where clients have models of their own,
        so are those that never trained. ConfigError if the run has none.
        """
        return self._local.figures

    @cached_property
    def _local(self) -> LocalFigures:
        return read_figures(RunFolder(self.folder))

    @cached_property
    def description(self) -> ModelDescription:
        """The model's task, form of the data, and class names."""
        return ModelDescription.read(RunFolder(self.folder).description)

    @cached_property
    def model(self) -> nn.Module:
        """The final model, in evaluation mode, on the CPU. No code from the run's folder is run.

        ConfigError if the user has to provide code of their own, or there is no model.
        """
        return self.trained[1]

    def model_of(self, client: int) -> nn.Module:
        """The model of simulated client `client`: the final one, with the client's own parameters.

        Clients have these with local-algorithm = mr-mtl, or personal = PATTERNS. A client that was never
        chosen has the final model. ConfigError if the run has no such parameters or client, or was not
        simulated with our engine: real sites keep their own parameters beside their ledgers.
        """
        check_own_models(self.settings, client)
        own = own_parameters(RunFolder(self.folder), client)
        model = copy.deepcopy(self._rebuilt[1])
        model.load_state_dict(own, strict=False)  # a tied parameter only has its first name
        return model

    @cached_property
    def trained(self) -> tuple[Task, nn.Module]:
        """The task, which knows the form of its data, and `model`.

        ConfigError if parameters are the sites' own: the run's model has no trained values for them.
        """
        if self.settings.personal:
            raise ConfigError(
                f"personal = {self.settings.personal!r}: the run's model has no trained values for these "
                "parameters. Use a client's model, model_of(CLIENT)."
            )
        return self._rebuilt

    @cached_property
    def _rebuilt(self) -> tuple[Task, nn.Module]:
        return rebuilt(RunFolder(self.folder), self.settings, self.description, self.task, self.model_name)


def load_run(folder: str | Path, *, task: type[Task] | str | None = None, model: str | None = None) -> Result:
    """The run in `folder`, made by `run.sh`, `fl-dp` or `simulate`, on this machine or another.

    Code that the folder holds or names is never run.

    Args:
        folder: The run's.
        task: Your own task, needed only for the model: the class, FILE.py or package.module:NAME. Its code is
            run, so name only code that you trust.
        model: The same for a model that is not built in.

    Returns:
        The run, as far as it has got.

    Raises:
        ConfigError: There is no run.

    Example:
        >>> import fl_dp
        >>> fl_dp.load_run("runs/first").status
        'completed'
    """
    path = Path(folder).expanduser().absolute()
    files = RunFolder(path)
    if not files.config.is_file():
        raise ConfigError(f"{path}: holds no run; there is no {files.config.name}.")
    summary = Run(files).summary()
    return Result(path, kept_config(files), strict_json(summary.to_dict()) if summary else {}, task, model)


def _round(report: RoundReport) -> Row:
    """A line of rounds.jsonl as a row of numbers."""
    line = strict_json(report.to_dict())
    states = [client.status for client in report.clients.values()]
    counts = {state: states.count(state) for state in CLIENT_STATUSES}
    plain = {name: value for name, value in line.items() if not isinstance(value, Mapping)}
    return {**plain, **line["metrics"], **counts}


def _table(rows: Sequence[Row]) -> Any:
    if find_spec("pandas") is None:
        return list(rows)
    import pandas  # late: it takes half a second

    return pandas.DataFrame(rows)


def check_own_models(settings: RunConfig, client: int) -> None:
    """Raise ConfigError unless the run has that client, and clients have parameters of their own."""
    if not has_own_models(settings.local_algorithm, settings.personal):
        raise ConfigError(
            f"local-algorithm = {settings.local_algorithm!r}, without personal parameters: the run's "
            "clients have no models of their own; see local-algorithm = mr-mtl and personal."
        )
    if not 0 <= client < settings.clients:
        raise ConfigError(f"client {client}: the run's clients are 0 to {settings.clients - 1}.")


def own_parameters(folder: RunFolder, client: int) -> dict[str, Tensor]:
    """The client's own parameters after its last round, by name; none if it was never chosen.

    ConfigError if the folder holds no client's parameters.
    """
    kept = folder.clients / FOLDER
    if not kept.is_dir():
        raise ConfigError(
            f"{kept}: no such folder; only simulations with Ray keep their clients' own models in the "
            "run's folder. Other sites keep theirs beside their ledgers; fl-dp client --evaluate evaluates "
            "them."
        )
    own: dict[str, Tensor] = read_state(KeptStates(kept).last(str(client))).get(OWN, {})
    return own
