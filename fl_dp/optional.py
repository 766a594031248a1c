"""Optional dependencies, which only some choices need."""

from importlib.util import find_spec

from fl_dp.errors import ConfigError

# By package, the extra in pyproject.toml that installs it.
EXTRAS = {
    "jinja2": "report",
    "matplotlib": "report",
    "tokenizers": "text",
    "transformers": "text",
    "peft": "text",
    "torchvision": "vision",
    "timm": "vision",
    "kymatio": "vision",
    "onnx": "onnx",
    "onnxscript": "onnx",
    "tensorboard": "track",
}


def require_package(package: str, wanted_by: str) -> None:
    """ConfigError, with the command that installs it, if `package` is missing."""
    if find_spec(package) is None:
        raise ConfigError(missing_words(package, wanted_by))


def missing_words(package: str, wanted_by: str) -> str:
    """The message for a missing `package`. fl_dp is on no package index, so extras are those of its wheel."""
    extra = f", or the extra {EXTRAS[package]} of fl_dp's wheel" if package in EXTRAS else ""
    return f"{wanted_by} needs the package {package}, which is not installed: pip install {package}{extra}."
