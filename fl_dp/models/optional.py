"""Libraries that only some models need."""

from importlib.util import find_spec

from fl_dp.errors import ConfigError


def require_package(package: str, wanted_by: str) -> None:
    """ConfigError, with the command that installs it, where `package` is not there."""
    if find_spec(package) is None:
        raise ConfigError(
            f"{wanted_by} needs the package {package}, which is not installed: pip install {package}."
        )
