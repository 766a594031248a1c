"""statements.json, as it is read: texts, each with a key and a signature that prove nothing yet."""

from pathlib import Path

from fl_dp.errors import ConfigError
from fl_dp.statements import Stated
from fl_dp.verify.reading import read_json, table, text


def signed_texts(path: Path) -> list[Stated]:
    """ConfigError where the file is no list of statements."""
    try:
        found = table(read_json(path))["statements"]
        if type(found) is not list:
            raise ValueError("no list")
        return [
            Stated(text(one["text"]), text(one["key"]), text(one["signature"])) for one in map(table, found)
        ]
    except ConfigError:
        raise
    except (ValueError, KeyError):
        raise ConfigError(f"{path.name} is damaged: it is no list of statements.") from None
