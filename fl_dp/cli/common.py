"""Shared by all commands: how they run and end, how errors are printed, what their help looks like."""

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, get_type_hints

import click
import typer
from click.core import ParameterSource
from typer.core import TyperArgument, TyperCommand

from fl_dp.choices import TRACKERS
from fl_dp.durable_files import state_folder
from fl_dp.errors import ConfigError, DataError, ExitCode, FlDpError, ModelError, TaskError

CONFIGS = Path(__file__).parents[1] / "configs"  # included in a wheel
DEFAULT_CONFIG = CONFIGS / "digits.toml"
DEFAULT_ADDRESS = "127.0.0.1:9092"  # where server.py serves and client.py joins
_LOOPBACK = ("127.0.0.1", "::1", "localhost")

# Mistakes in what the user has named, found before anything starts. Later errors are reported by the process
# that meets them, as a LaunchError or as a client's refusal.
_OF_THE_USER = (ConfigError, DataError, ModelError, TaskError, click.UsageError)


def shipped(config: Path | None) -> Path | None:
    """`config`, or the one included in fl_dp if `configs/NAME.toml` does not exist, as without a checkout."""
    if config is None or config.parent != Path("configs") or config.exists():
        return config
    brought = CONFIGS / config.name
    return brought if brought.exists() else config


ConfigOption = Annotated[
    Path,
    typer.Option(
        help="Run config, a flat TOML file [default: configs/digits.toml].",
        show_default=False,
        callback=shipped,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any run-config key (fl-dp keys); repeatable."),
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        help="Seed of the split and of the first weights, never of noise or sampling [default: the config's]."
    ),
]
OutOption = Annotated[
    Path | None, typer.Option(help="Folder for results and logs [default: runs/<date-time>].")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TrackOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Trackers that also get the numbers of each round, separated by commas: "
        f"{', '.join(TRACKERS.built_in())}.",
    ),
]

APP_OPTIONS: dict[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
    "suggest_commands": False,  # click suggests them itself
}


def run_command(command: typer.Typer, arguments: Sequence[str], prog: str | None = None) -> int:
    """Run `command`, print an error as one line on stderr, and return the exit code."""
    try:
        with stop_on_signals():
            result = typer.main.get_command(command).main(list(arguments), prog, standalone_mode=False)
    except (FlDpError, click.UsageError) as error:
        text = _usage(error) if isinstance(error, click.UsageError) else str(error)
        print(f"error: {text}", file=sys.stderr, flush=True)
        return int(ExitCode.USAGE if isinstance(error, _OF_THE_USER) else ExitCode.FAILED)
    if result == ExitCode.INTERRUPTED and not isinstance(result, ExitCode):  # typer's, for KeyboardInterrupt
        print("interrupted; everything that was started has been stopped", file=sys.stderr, flush=True)
    return int(result or 0)


def _usage(error: click.UsageError) -> str:
    """click's message, with what a missing argument means, or the command that lists what there is."""
    words = error.format_message()
    if isinstance(error, click.NoSuchOption):  # click also suggests what is hardly alike: --out for --port
        words = f"{error.message}{_option_near(error)}"
    meaning = getattr(error.param, "help", "") if isinstance(error, click.MissingParameter) else ""
    if meaning:
        return f"{words.rstrip('.')}: {meaning}"
    if "Did you mean" in words or error.ctx is None:
        return words
    return f"{words} See {error.ctx.command_path} --help."


def _option_near(error: click.NoSuchOption) -> str:
    from fl_dp.cli.arguments import option_near  # late: it imports what starts runs

    word, context = error.option_name.strip("-"), error.ctx
    options = (
        [one for each in context.command.params for one in each.opts if one.startswith("-")]
        if context
        else []
    )
    near = option_near(word, "", options, of_run=context is not None and context.command.name == "server")
    return f" {near[0].upper()}{near[1:]}{'' if near.endswith('?') else '.'}" if near else ""


def loopback_keys(host: str, port: int) -> Path:
    """The key folder of a server on this machine; ConfigError for another machine, which needs a kit."""
    if host not in _LOOPBACK:
        raise ConfigError(
            f"{host}:{port}: a server on another machine needs a kit, --kit FOLDER; docs/deployment.md "
            "says how to make one."
        )
    return state_folder() / "loopback" / str(port)


def refuse_before(context: typer.Context) -> None:
    """Raise ConfigError for an option before a subcommand's name, where it would have no effect."""
    command = context.invoked_subcommand
    for parameter in context.command.params:
        if context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE:
            raise ConfigError(
                f"{parameter.opts[0]}: has no effect before {command}; write options of {command} after it."
            )


def write_new(path: Path, text: str) -> None:
    """Write a new file; ConfigError if it exists or cannot be written."""
    try:
        with path.open("x", encoding="utf-8") as new:
            new.write(text)
    except FileExistsError:
        raise ConfigError(f"{path}: already exists and is not overwritten; name a new file.") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}.") from None


def say(text: str) -> None:
    """Print a line on the console, unbuffered."""
    print(text, flush=True)


def asked_yes(question: str) -> bool:
    """Ask on the console until the answer is yes or no."""
    while (word := input(f"{question} [y/n] ").strip().lower()) not in ("y", "yes", "n", "no"):
        pass
    return word.startswith("y")


class PlainCommand(TyperCommand):
    """A command whose help shows what is written here.

    Without rich mark-up typer leaves a backslash before `[required]`, and with click 8.5 it loses the help of
    arguments.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        hints = get_type_hints(self.callback, include_extras=True) if self.callback else {}
        for parameter in self.params:
            for about in getattr(hints.get(parameter.name or ""), "__metadata__", ()):
                if isinstance(parameter, TyperArgument):
                    parameter.help = about.help

    def format_arguments(self, ctx: Any, formatter: Any) -> None:
        """Nothing: with the options, typer writes a section of the arguments as well."""

    def get_help(self, ctx: Any) -> str:
        return super().get_help(ctx).replace("\\[", "[")


def command(text: str | None = None, **settings: bool) -> Callable[[Callable[..., Any]], typer.Typer]:
    """Make a function a command. text: its help, if not the docstring; settings: of click's context."""

    def made(function: Callable[..., Any]) -> typer.Typer:
        app = typer.Typer(**APP_OPTIONS)
        app.command(cls=PlainCommand, help=text, context_settings=settings)(function)
        return app

    return made


_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """Within the block, the first of the stopping signals raises KeyboardInterrupt.

    Later ones are ignored: they would interrupt the clean-up that the first one started.
    """
    stopping = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopping
        if not stopping:
            stopping = True
            raise KeyboardInterrupt

    before = {one: signal.getsignal(one) for one in _STOPPING}
    for one, handler in before.items():
        if one != signal.SIGHUP or handler != signal.SIG_IGN:  # under nohup, ignore a closed terminal
            signal.signal(one, stop)
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
