"""Libraries that only some choices need: extras of the package."""

from importlib.util import find_spec

from fl_dp.errors import ConfigError

# The extra that brings a package, as pyproject.toml has it.
EXTRAS = {
    "jinja2": "report", "matplotlib": "report",
    "tokenizers": "text", "transformers": "text", "peft": "text",
    "torchvision": "vision", "timm": "vision", "kymatio": "vision",
    "onnx": "onnx", "onnxscript": "onnx",
    "prometheus_client": "metrics",
    "tensorboard": "track", "mlflow": "track", "wandb": "track",
}  # fmt: skip


def require_package(package: str, wanted_by: str) -> None:
    """ConfigError, with the command that installs it, where `package` is not there."""
    if find_spec(package) is None:
        raise ConfigError(missing_words(package, wanted_by))


def missing_words(package: str, wanted_by: str) -> str:
    """What to say where `package` is not there. fl_dp itself is a wheel: no index is asked for it."""
    extra = f", or the extra {EXTRAS[package]} of fl_dp's wheel" if package in EXTRAS else ""
    return f"{wanted_by} needs the package {package}, which is not installed: pip install {package}{extra}."
