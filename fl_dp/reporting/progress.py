"""The progress of the current round, on a terminal: one line, deleted when the round is over."""

from importlib.util import find_spec

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


class RoundBar:
    """Shows clients done, records a second and time left. Where standard error is no terminal, nothing."""

    def __init__(self, console: Console | None = None, *, quiet: bool = False) -> None:
        """console: standard error unless given, so that a pipe gets lines alone. quiet: nothing anywhere."""
        console = console or Console(stderr=True)
        # rich draws in a notebook by ipywidgets, and warns where they are not
        notebook = console.is_jupyter and find_spec("ipywidgets") is not None
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("clients, {task.fields[speed]:,.0f} records/s"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=quiet or not (console.is_terminal or notebook),
        )
        self._task: TaskID | None = None

    def show(self, server_round: int, over: int, clients: int, records_per_second: float) -> None:
        """`over` of the round's `clients` are done."""
        if self._task is None:
            self._progress.start()
            self._task = self._progress.add_task(f"round {server_round}", total=clients, speed=0.0)
        self._progress.update(self._task, completed=over, speed=records_per_second)

    def clear(self) -> None:
        """Delete the line; the next `show` begins a new one."""
        if self._task is not None:
            self._progress.stop()
            self._progress.remove_task(self._task)
            self._task = None
