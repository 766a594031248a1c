"""statements.json, as it is read: texts, each with a key and a signature that prove nothing yet."""

from pathlib import Path
from typing import NamedTuple

from fl_dp.errors import ConfigError
from fl_dp.verify.reading import read_json, table, text


class SignedText(NamedTuple):
    """key, signature: in hex; empty where nobody has signed."""

    text: str
    key: str
    signature: str


def signed_texts(path: Path) -> list[SignedText]:
    """ConfigError where the file is no list of statements."""
    try:
        found = table(read_json(path))["statements"]
        if type(found) is not list:
            raise ValueError("no list")
        return [SignedText(*(text(one[key]) for key in SignedText._fields)) for one in map(table, found)]
    except ConfigError:
        raise
    except (ValueError, KeyError):
        raise ConfigError(f"{path.name} is damaged: it is no list of statements.") from None
