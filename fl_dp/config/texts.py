"""What a text in the settings may be: it names files, stands in reports and is written to other files."""

import dataclasses
from pathlib import Path
from typing import Any

from fl_dp.errors import ConfigError

LONGEST = 4096  # bytes of a path on most systems


def check_texts(config: Any) -> None:
    """ConfigError for the first text of a config, a dataclass, that no file or path can hold."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, str) and (problem := _problem(value)):
            raise ConfigError(f"{field.name.replace('_', '-')} = {value[:40]!r}: {problem}.")


def _problem(text: str) -> str:
    if len(text) > LONGEST:
        return f"expected {LONGEST} characters at most"
    if "\0" in text:
        return "expected a text without the character 0"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "expected a text in UTF-8"
    for path in (text, text.partition(":")[2]):
        if path.startswith("~"):
            try:
                Path(path).expanduser()
            except RuntimeError:
                return f"{path.partition('/')[0]} is no user here"
    return ""
