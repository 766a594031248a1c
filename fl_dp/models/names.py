"""The values of `model = NAME`: a built-in choice, with or without an argument, or the user's own code."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from fl_dp.choices import MODELS
from fl_dp.config.task import task_file

OWN_CODE = "FILE.py:NAME or package.module:NAME"


def is_own_code(model: str) -> bool:
    """Whether it is `FILE.py:NAME` or `package.module:NAME`; a built-in name always means that model."""
    _, name = task_file(model)
    return name.isidentifier() and model.partition(":")[0] not in MODELS.names()


def check_name(model: str) -> None:
    """Raise ConfigError for a name that is neither a choice nor the user's own code; nothing is imported."""
    if not is_own_code(model):
        MODELS.check(model, also=OWN_CODE)


def absolute_model(model: str) -> str:
    """`model`, with its path made absolute, so that it means the same from any folder."""
    if is_own_code(model):
        file, name = task_file(model)
        return model if file is None else f"{file.expanduser().absolute()}:{name}"
    kind, _, argument = model.partition(":")
    if argument and _common(model):
        return f"{kind}:{Path(argument).expanduser().absolute()}"
    return model


@lru_cache(maxsize=16)
def common_name(model: str) -> str:
    """The name that sites compare, without paths, which are each site's own.

    For the user's own code, its name in the file (the task's identity covers the code); for a choice that
    reads a path, what is public there.
    """
    if is_own_code(model):
        return task_file(model)[1]
    kind, colon, argument = model.partition(":")
    common = _common(model) if colon else None
    return f"{kind}:{common(argument)}" if common else model


def _common(model: str) -> Callable[[str], str] | None:
    """The function `Model.common` of the choice; None if it reads no path."""
    from fl_dp.models.build import choose_model  # late: PyTorch, for a second

    return choose_model(model)[0].common
