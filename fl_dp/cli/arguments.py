"""Turns a command line and a config file into one validated request."""

import dataclasses
import re
import tomllib
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from fl_dp.choices import nearest
from fl_dp.config.also_called import SEVERAL_RUNS, instead_of, option_among, option_called, setting_called
from fl_dp.config.files import DAMAGED
from fl_dp.config.flat import AUTO, FlatConfig, Scalar, places_in
from fl_dp.config.run import RunConfig
from fl_dp.config.setting import accepted_by
from fl_dp.config.task import task_beside
from fl_dp.config.values import Mistake, SettingsError
from fl_dp.errors import ConfigError, FlDpError
from fl_dp.launch.request import Engine, RunRequest, read_config, request_of

_POSITION = "by position"  # the place of an argument without an option
_KEY = re.compile(r"([a-z][a-z-]*)(?= = |: )")  # the key at the start of an error about a setting


@dataclass(frozen=True)
class Argument:
    """A positional argument: its name in the usage line, the config key that it sets, and its type."""

    name: str
    key: str
    kind: type[int] | type[float]
    help: str
    or_auto: bool = False

    def read(self, text: str) -> Scalar:
        return text if self.or_auto and text == AUTO else self.kind(text)

    @property
    def expected(self) -> str:
        return f"{'an integer' if self.kind is int else 'a number'}{' or auto' if self.or_auto else ''}"


ARGUMENTS = (
    Argument("NBCLIENTS", "clients", int, "clients to start"),
    Argument("NBMINCLIENTS", "min-clients", int, "clients that must be connected before a round starts"),
    Argument("NBFITCLIENTS", "fit-clients", int, "clients sampled in a round"),
    Argument("NBROUNDS", "rounds", int, "rounds"),
    Argument("VBATCHSIZE", "expected-batch-size", int, "logical batch: expected size of a Poisson draw"),
    Argument(
        "BATCHSIZE", "physical-batch-size", int, "maximum number of examples in memory at once, or auto", True
    ),
    Argument("LR", "learning-rate", float, "learning rate of the clients"),
    Argument("NM", "noise-multiplier", float, "noise multiplier, or auto", True),
    Argument("MGN", "max-grad-norm", float, "clipping bound"),
    Argument("EPS", "epsilon", float, "privacy budget of each client"),
)


def read_request(
    file: Path | None,
    positional: Sequence[str] = (),
    settings: Sequence[str] = (),
    options: Mapping[str, Scalar | None] | None = None,
) -> RunRequest:
    """The run that `file` describes, changed by the command line. ConfigError names every mistake and place.

    file: None for the defaults. positional: texts in the order of ARGUMENTS, perhaps fewer. settings:
    `key=value` texts. options: values of options that are named as their keys, such as seed; None: not given.
    """
    base = RunConfig() if file is None else read_config(file)
    first, second = _positional(positional), read_settings(settings, RunConfig)
    third = {key: value for key, value in (options or {}).items() if value is not None}
    places = {} if file is None else places_in(file)
    places |= {**dict.fromkeys(second, "--set"), **{key: f"--{key}" for key in third}}
    places |= {one.key: _POSITION for one in ARGUMENTS if one.key in first}
    try:
        request = request_of(base, _merge(first, second, third))
    except SettingsError as error:
        raise error.placed(lambda one: placed(one.words, one.key, places)) from None
    return dataclasses.replace(request, places=places)


@contextmanager
def naming_places(request: RunRequest) -> Iterator[None]:
    """Within the block, a ConfigError about a setting of the request says where that setting was given."""
    try:
        yield
    except ConfigError as error:
        words = placed_error(error, request.places)
        if words == str(error):
            raise
        raise ConfigError(words) from error


def placed_error(error: FlDpError, places: Mapping[str, str]) -> str:
    """An error's text, preceded by the place of the setting that it names first."""
    key = _KEY.match(str(error))
    return placed(str(error), key[1] if key else "", places)


def placed(words: str, key: str, places: Mapping[str, str]) -> str:
    """The problem `words` with the setting `key`, preceded by the place where the setting was given.

    A setting that was given by position is shown with its argument's name.
    """
    words = name_arguments(words, [one for one, place in places.items() if place == _POSITION])
    place = places.get(key, "")
    return words if place in ("", _POSITION) else f"{place}: {words}"


def simulation_engine(simulate: bool, ray_address: str | None) -> Engine | None:
    """The engine that simulates the clients; None if each client is a process."""
    if simulate:
        return "ray"
    if ray_address is not None:
        raise ConfigError(f"--ray-address {ray_address}: works only in a simulation; add --simulate.")
    return None


def name_arguments(text: str, keys: Collection[str]) -> str:
    """`text` with every `key =` of `keys` preceded by the positional argument that set it."""
    names = {argument.key: argument.name for argument in ARGUMENTS if argument.key in keys}
    if not names:
        return text
    return re.sub(
        rf"(?<![\w-])({'|'.join(names)})(?= = )", lambda found: f"{names[found[0]]} ({found[0]})", text
    )


def _positional(texts: Sequence[str]) -> dict[str, Scalar]:
    if len(texts) > len(ARGUMENTS):
        raise ConfigError(
            f"{texts[len(ARGUMENTS)]}: one argument too many; expected at most {len(ARGUMENTS)}."
        )
    values: dict[str, Scalar] = {}
    mistakes: list[Mistake] = []
    for argument, text, following in zip(ARGUMENTS, texts, (*texts[1:], ""), strict=False):
        if re.match("--|-(?!inf|nan)[a-zA-Z]", text):
            word, equals, value = text.lstrip("-").partition("=")
            value = value if equals else "" if following.startswith("--") else following
            raise ConfigError(
                f"{text}: no such option; {option_near(word, value, _options()) or 'see --help.'}"
            )
        try:
            values[argument.key] = argument.read(text)
        except ValueError:
            words = f"{argument.name} ({argument.key}) = {text!r}: expected {argument.expected}"
            mistakes.append(Mistake(argument.key, words + _word_near(text)))
    if mistakes:
        raise SettingsError(mistakes)
    return values


def option_near(word: str, value: str, options: Sequence[str], *, of_run: bool = True) -> str:
    """What to type for an option that a command does not have; empty if nothing is like it.

    value: perhaps its value. options: those that the command has. of_run: whether --set takes a run's keys.
    """
    if of_run and (setting := _setting_near(word, value)):
        return setting
    meant = option_among(word, options) or (option_called(word) if of_run else "")
    if not meant and (near := nearest(word, [one.strip("-") for one in options])):
        meant = f"--{near}"
    return f"did you mean {meant}?" if meant else ""


def _setting_near(word: str, value: str) -> str:
    """What to write for `word`, if it is a setting's name, here or in another project; else empty."""
    key, template = setting_called(word)
    if not key and word.replace("_", "-") in RunConfig().to_flat():
        key = word.replace("_", "-")
    return f"write --set {key}={template.format(value or 'VALUE')}" if key else instead_of(word)


def _options() -> list[str]:
    context = click.get_current_context(silent=True)
    return [] if context is None else [one for each in context.command.params for one in each.opts]


def _word_near(text: str) -> str:
    """A hint for a word that is not an argument: it may be meant as something else."""
    if f"--{text}" in _options():
        return f"; did you mean --{text}?"
    if option := option_called(text.removeprefix("-")):
        return f"; did you mean {option}?"
    if text.endswith(".toml"):
        return f"; for a config write --config {text}"
    if text.endswith(".py"):
        return f"; for a task write --set task={text}"
    key, equals, value = text.lstrip("+").partition("=")
    if not equals:
        return "."
    if re.fullmatch(r"[^,\[]+(,[^,]+)+", value) and _is_no_text(key):
        return f"; for several runs use {SEVERAL_RUNS}"
    if not key:
        return "; write KEY=VALUE without spaces"
    return f"; for a setting {_setting_near(key, value) or f'write --set {key}={value}'}"


def _is_no_text(key: str) -> bool:
    """Whether `key`, here or in another project, is a setting whose value is never a text."""
    accepted = accepted_by(RunConfig).get((setting_called(key)[0] or key).replace("-", "_"))
    return accepted is not None and accepted.kind is not str


def read_settings(texts: Sequence[str], kind: type[FlatConfig]) -> dict[str, Scalar]:
    """`key=value` texts as a mapping; a value is TOML, a bare word a string. kind: class of the settings."""
    values: dict[str, Scalar] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set {text}: expected key=value.")
        if key.strip() in values:
            raise ConfigError(f"--set {text}: {key.strip()} is given twice on the command line.")
        values[key.strip()] = _value(key.strip(), value.strip(), kind)
    return values


def _value(key: str, text: str, kind: type[FlatConfig]) -> Scalar:
    """`text` as a TOML value; the text itself if it is not TOML, or if the key takes only strings."""
    try:
        table = tomllib.loads(f"value = {text}")
    except DAMAGED:
        return text
    value = table["value"]
    takes_text = typing.get_type_hints(kind).get(key.replace("-", "_")) is str
    if len(table) > 1 or (takes_text and not isinstance(value, str)):
        return text
    return typing.cast(Scalar, value)


def _merge(*parts: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The union of mappings; a key in two of them is an error that names it."""
    merged: dict[str, Scalar] = {}
    for part in parts:
        for key in merged.keys() & part.keys():
            words = f"{key} = {part[key]}: given twice on the command line."
            raise ConfigError(name_arguments(words, [one.key for one in ARGUMENTS if one.key in parts[0]]))
        merged.update(part)
    return merged


def task_from_here(name: str | None) -> str | None:
    """The task or model that an option names; a file is looked for from the working directory."""
    return name if name is None else task_beside(name, Path.cwd())
