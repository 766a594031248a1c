"""Who may import what (the layers are import-linter's, in `make check`), and what an import costs."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "fl_dp"

# Who may import a third-party package at all. The standard library and fl_dp are always allowed.
_FROM_FLOOR_2 = {
    "training",
    "tasks",
    "privacy_engine",
    "federation",
    "simulation",
    "reporting",
    "audit",
    "verify",
}
USERS = {
    "torch": {"engine", "data", "models", "launch", "api", "weights_digest", *_FROM_FLOOR_2},
    "torchvision": {"data", "models"},
    "numpy": {"engine", "accounting", "data", "models", "weights_digest", *_FROM_FLOOR_2},
    "timm": {"models"},
    "transformers": {"models"},
    "peft": {"models"},
    "safetensors": {"api", "models"},
    "sklearn": {"data", "tasks"},
    "flwr_datasets": {"data"},
    "datasets": {"data"},
    "tokenizers": {"data"},
    "filelock": {"data"},
    "PIL": {"data"},
    "kymatio": {"data"},  # features, if it is installed
    "pandas": {"data", "api"},  # of the api: if it is installed
    "pyarrow": {"data"},
    "dp_accounting": {"accounting", "verify"},  # verify asks it and not accounting: a second opinion
    "scipy": {"accounting", "audit"},
    "flwr": {"federation", "simulation", "launch"},
    "ray": {"simulation"},
    # the bytes of noise and draws; keys and certificates; masks of secure sums
    "cryptography": {"engine", "kits", "federation"},
    "uvicorn": {"federation"},
    "google": {"federation"},  # Flower's messages
    "triton": {"engine"},  # a kernel for GPUs, imported where it can run
    "onnx": {"api"},  # if it is installed
    "httpx": {"federation"},
    "pydantic": {"schema", "reporting"},
    "pydantic_core": {"schema"},
    "rich": {"reporting"},
    # trackers, if they are installed; clients import none
    "tensorboard": {"reporting"},
    "matplotlib": {"reporting", "api"},  # figures, imported when one is drawn
    "jinja2": {"reporting"},
    "markupsafe": {"reporting"},
    "tomli_w": {"launch", "reporting"},
    "typer": {"cli"},
    "click": {"cli"},
}

# The cleaner of strangers' text; and a writer of TOML, whose escapes have a form.
CLEANERS = {"clean_text.py", "draft.py"}

# What the processes of real clients import, before and in a round.
CLIENT = (
    "fl_dp.launch.client_processes, fl_dp.federation.client.loop, fl_dp.federation.client.app, "
    "fl_dp.federation.client.own_training, fl_dp.cli.client"
)


def test_every_file_keeps_to_what_its_part_may_do() -> None:
    """All files are parsed once; each fault names its file."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        found += [f"{path.relative_to(ROOT)}: {fault}" for fault in faults(path, text)]
    assert found == []


def faults(path: Path, text: str) -> Iterator[str]:
    part = path.relative_to(PACKAGE).with_suffix("").parts[0]
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.ImportFrom(level=level) if level:
                yield "a relative import"
            case ast.ImportFrom(module="fl_dp"):
                yield "imports the package's own lazy names, which are those of all layers"
            case ast.ImportFrom(module=str(module)):
                yield from foreign(part, module)
            case ast.Import(names=names):
                for alias in names:
                    yield from foreign(part, alias.name)
            case ast.GeneratorExp() | ast.ListComp() if path.name not in CLEANERS:
                # one character at a time it is a cleaner; of a whole text it is a check
                if any(
                    isinstance(one, ast.Attribute) and one.attr == "isprintable" for one in ast.walk(node)
                ):
                    yield "cleans text by itself; clean_text does that"
    if re.search(r"import(_module|__)\(\s*f?[\"']fl_dp", text):
        yield "imports a part of fl_dp by a name in a text, around the layers"


def foreign(part: str, module: str) -> Iterator[str]:
    package = module.split(".")[0]
    if package not in sys.stdlib_module_names | {"fl_dp"} and part not in USERS.get(package, set()):
        yield f"{part} may not import {package}"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("from . import x", "a relative import"),
        ("from fl_dp import Task", "imports the package's own lazy names"),
        ("def late():\n    import torch.nn", "kits may not import torch"),
        ("a = [c for c in s if c.isprintable()]", "cleans text by itself"),
        ("import_module('fl_dp.engine')", "by a name in a text"),
    ],
)
def test_a_fault_is_found(text: str, fault: str) -> None:
    assert fault in " ".join(faults(PACKAGE / "kits" / "new.py", text))


@pytest.mark.parametrize("name", ["server", "client"])
def test_entry_points_import_one_app_only(name: str) -> None:
    """Flower imports them in every process it starts: each import there is paid for in every round."""
    tree = ast.parse((ROOT / f"{name}.py").read_text())
    top = [ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert top == [f"from fl_dp.federation.{name}.app import app"]


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import fl_dp", "torch numpy flwr ray typer rich pandas asyncio pydantic"),
        (
            "from fl_dp import PrivacyEngine",
            "scipy pandas opacus sklearn matplotlib rich flwr ray pydantic fl_dp.data fl_dp.federation "
            "torchvision",
        ),
        ("import fl_dp.accounting.ledger.ledger", "torch flwr ray pydantic"),
        ("import fl_dp.federation.client.app", "torch ray fl_dp.launch"),
        ("import fl_dp.federation.secure_sum.participant", "torch ray flwr fl_dp.engine"),
        ("import fl_dp.federation.secure_sum.summing", "torch ray flwr fl_dp.engine"),
        ("import fl_dp.federation.server.app", "torch ray fl_dp.launch"),
        ("import fl_dp.cli.main, fl_dp.launch.progress_reporter", "torch flwr ray pydantic"),
        (f"import {CLIENT}", "tensorboard fl_dp.reporting.tracking"),
        ("import fl_dp.reporting.page.render", "torch matplotlib jinja2 markupsafe"),
        ("import fl_dp.launch.launcher", "torch ray flwr"),
        ("import fl_dp.launch.check, fl_dp.launch.first_checks", "torch ray flwr"),
        # Ray reads its settings when it is imported: the thread that starts it sets them before
        ("import fl_dp.launch.preflight, fl_dp.launch.serving, fl_dp.launch.forecast", "ray"),
        ("import fl_dp.launch.processes", "torch flwr typer"),
    ],
)
def test_importing_a_part_leaves_the_rest_alone(statement: str, absent: str) -> None:
    code = f"{statement}\nimport sys\nprint(*set(sys.modules) & set({absent.split()}))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == []
