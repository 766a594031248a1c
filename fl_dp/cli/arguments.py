"""Turns a command line and a config file into one validated request."""

import re
import tomllib
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fl_dp.config.files import DAMAGED
from fl_dp.config.flat import AUTO, FlatConfig, Scalar
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.launch.request import Engine, RunRequest, read_config, request_of


def _number_or_auto(text: str) -> Scalar:
    return text if text == AUTO else float(text)


def _integer_or_auto(text: str) -> Scalar:
    return text if text == AUTO else int(text)


@dataclass(frozen=True)
class Argument:
    """A positional argument: its name in the usage line, the run-config key it sets, how it is read."""

    name: str
    key: str
    read: Callable[[str], Scalar]
    expected: str
    help: str


ARGUMENTS = (
    Argument("NBCLIENTS", "clients", int, "an integer", "clients launched"),
    Argument("NBMINCLIENTS", "min-clients", int, "an integer", "clients that must be there before a round"),
    Argument("NBFITCLIENTS", "fit-clients", int, "an integer", "clients sampled in a round"),
    Argument("NBROUNDS", "rounds", int, "an integer", "rounds"),
    Argument("VBATCHSIZE", "expected-batch-size", int, "an integer", "logical batch: expected Poisson draw"),
    Argument(
        "BATCHSIZE",
        "physical-batch-size",
        _integer_or_auto,
        "an integer or auto",
        "most examples at once, or auto",
    ),
    Argument("LR", "learning-rate", float, "a number", "learning rate of the clients"),
    Argument("NM", "noise-multiplier", _number_or_auto, "a number or auto", "noise multiplier, or auto"),
    Argument("MGN", "max-grad-norm", float, "a number", "clipping bound"),
    Argument("EPS", "epsilon", float, "a number", "privacy budget of every client"),
)


def read_request(
    file: Path, positional: Sequence[str] = (), settings: Sequence[str] = (), seed: int | None = None
) -> RunRequest:
    """The run that `file` describes, changed by the command line; ConfigError names the culprit.

    positional: texts in the order of ARGUMENTS, as many as there are; settings: `key=value` texts.
    """
    base = read_config(file)
    seeds: dict[str, Scalar] = {} if seed is None else {"seed": seed}
    given = _merge(_positional(positional), read_settings(settings, RunConfig), seeds)
    try:
        return request_of(base, given)
    except ConfigError as error:
        raise ConfigError(name_arguments(str(error))) from None


def simulation_engine(simulate: bool, engine: str | None, ray_address: str | None) -> Engine | None:
    """Which engine simulates the clients; None when each is a process of its own."""
    if not simulate:
        for option, given in (("--engine", engine), ("--ray-address", ray_address)):
            if given is not None:
                raise ConfigError(f"{option} {given}: needs a simulation; add --simulate.")
        return None
    chosen = engine or "ray"
    if chosen not in typing.get_args(Engine):
        raise ConfigError(f"--engine {chosen}: expected {' or '.join(typing.get_args(Engine))}.")
    if chosen == "flower" and ray_address is not None:
        raise ConfigError(f"--ray-address {ray_address}: Flower's engine starts a Ray of its own.")
    return typing.cast(Engine, chosen)


def name_arguments(text: str) -> str:
    """`text` with every `key =` preceded by the positional argument that sets it, where there is one."""
    names = {argument.key: argument.name for argument in ARGUMENTS}
    keys = "|".join(names)
    return re.sub(rf"(?<![\w-])({keys})(?= = )", lambda found: f"{names[found[0]]} ({found[0]})", text)


def _positional(texts: Sequence[str]) -> dict[str, Scalar]:
    if len(texts) > len(ARGUMENTS):
        raise ConfigError(f"{texts[len(ARGUMENTS)]}: more than {len(ARGUMENTS)} arguments.")
    values: dict[str, Scalar] = {}
    for argument, text in zip(ARGUMENTS, texts, strict=False):
        if text.startswith("--"):
            raise ConfigError(f"{text}: no such option; see --help.")
        try:
            values[argument.key] = argument.read(text)
        except ValueError:
            raise ConfigError(
                f"{argument.name} ({argument.key}) = {text!r}: expected {argument.expected}."
            ) from None
    return values


def read_settings(texts: Sequence[str], kind: type[FlatConfig]) -> dict[str, Scalar]:
    """`key=value` texts as a mapping; a value is TOML, and a bare word is a string. kind: whose keys."""
    values: dict[str, Scalar] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set {text}: expected key=value.")
        values = _merge(values, {key.strip(): _value(key.strip(), value.strip(), kind)})
    return values


def _value(key: str, text: str, kind: type[FlatConfig]) -> Scalar:
    """`text` as a TOML value; unchanged when it is not TOML, or when the key takes only strings."""
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
    """The union of mappings; a key in two of them is a contradiction, refused by name."""
    merged: dict[str, Scalar] = {}
    for part in parts:
        for key in merged.keys() & part.keys():
            raise ConfigError(name_arguments(f"{key} = {part[key]}: given twice on the command line."))
        merged.update(part)
    return merged
