"""The floors of the design: imports point down only, and each floor knows only what it needs."""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "fl_dp"

FLOORS = {
    "errors": 0, "records": 0, "config": 0, "durable_files": 0, "choices": 0, "steady_math": 0, "form": 0,
    "weights_digest": 0, "statements": 0, "clean_text": 0, "optional": 0,
    "engine": 1, "accounting": 1, "data": 1, "models": 1, "kits": 1,
    "training": 2, "tasks": 2, "privacy_engine": 2,
    "federation": 3, "simulation": 3, "reporting": 3, "audit": 3, "verify": 3,
    "launch": 4, "api": 4,
    "cli": 5,
}  # fmt: skip

ABOVE_THE_BASE = {part for part, floor in FLOORS.items() if floor in (2, 3)}

# Who may import a third-party package at all. The standard library and fl_dp are always allowed.
USERS = {
    "torch": {"engine", "data", "models", "launch", "api", "weights_digest", *ABOVE_THE_BASE},
    "torchvision": {"data", "models"},
    "numpy": {"engine", "accounting", "data", "models", "weights_digest", *ABOVE_THE_BASE},
    "timm": {"models"},
    "transformers": {"models"},
    "peft": {"models"},
    "safetensors": {"api", "models"},
    "sklearn": {"data"},
    "flwr_datasets": {"data"},
    "datasets": {"data"},
    "tokenizers": {"data"},
    "filelock": {"data"},
    "PIL": {"data"},
    "kymatio": {"data"},  # features, if it is installed
    "pandas": {"data", "api"},  # of the api: if it is installed
    "pyarrow": {"data"},
    "opacus": {"models", "accounting"},
    "dp_accounting": {"accounting", "verify"},  # verify asks it and not accounting: a second opinion
    "scipy": {"accounting", "audit"},
    "flwr": {"federation", "simulation", "launch", "client", "server"},
    "ray": {"simulation"},
    # the bytes of noise and draws; keys and certificates; masks of secure sums
    "cryptography": {"engine", "kits", "federation"},
    "shamirs": {"federation"},  # key shares of secure sums
    "uvicorn": {"federation"},
    "google": {"federation"},  # Flower's messages
    "triton": {"engine"},  # a kernel for GPUs, imported where it can run
    "torchmetrics": {"tasks"},
    "onnx": {"api"},  # if it is installed
    "httpx": {"federation"},
    "rich": {"reporting"},
    # trackers, if they are installed; clients import none
    "tensorboard": {"reporting"},
    "mlflow": {"reporting"},
    "wandb": {"reporting"},
    "matplotlib": {"reporting"},  # the figures of a report, imported when one is drawn
    "jinja2": {"reporting"},
    "markupsafe": {"reporting"},
    "tomli_w": {"launch", "reporting"},
    "typer": {"cli"},
    "click": {"cli"},
}  # fmt: skip

# What the processes of real clients import, before and in a round.
CLIENT = (
    "fl_dp.launch.client_processes, fl_dp.federation.client.loop, fl_dp.federation.client.app, "
    "fl_dp.federation.client.own_training, fl_dp.cli.client"
)

FILES = sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    """`engine` for fl_dp/engine/rules/linear.py, `config` for fl_dp/config.py."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_modules(path: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in the file, type checking included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def parts_imported(path: Path) -> set[str]:
    modules = [module.split(".") for module in imported_modules(path)]
    return {words[1] for words in modules if words[0] == "fl_dp" and len(words) > 1 and words[1] in FLOORS}


def test_every_part_has_a_floor() -> None:
    assert {part_of(path) for path in FILES} - {"__init__"} <= set(FLOORS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down_and_packages_stay_in_their_place(path: Path) -> None:
    part = part_of(path)
    if part == "__init__":
        return  # its names are lazy, see below
    for other in parts_imported(path) - {part}:
        assert FLOORS[other] <= FLOORS[part], f"{part} imports {other}, which stands above it"
        assert FLOORS[part] != 1 or FLOORS[other] == 0, f"siblings: {part} imports {other}"
    foreign = (
        {module.split(".")[0] for module in imported_modules(path)} - sys.stdlib_module_names - {"fl_dp"}
    )
    for package in foreign:
        assert part in USERS.get(package, set()), f"{part} may not import {package}"


@pytest.mark.parametrize("name", ["server", "client"])
def test_entry_points_import_one_app_only(name: str) -> None:
    """Flower imports them in every process it starts: each import there is paid for in every round."""
    tree = ast.parse((ROOT / f"{name}.py").read_text())
    top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [node.module for node in top if isinstance(node, ast.ImportFrom)] == [
        f"fl_dp.federation.{name}.app"
    ]
    assert len(top) == 1


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import fl_dp", {"torch", "numpy", "flwr", "ray", "typer", "rich", "pandas", "asyncio"}),
        ("from fl_dp import PrivacyEngine", {"scipy", "pandas", "opacus", "sklearn", "matplotlib", "rich"}),
        ("from fl_dp import PrivacyEngine", {"flwr", "ray", "fl_dp.data", "fl_dp.federation", "torchvision"}),
        ("import fl_dp.accounting.ledger.ledger", {"torch", "flwr", "ray"}),
        ("import fl_dp.federation.client.app", {"torch", "ray", "fl_dp.launch"}),
        ("import fl_dp.federation.secure_sum.participant", {"torch", "ray", "flwr", "fl_dp.engine"}),
        ("import fl_dp.federation.secure_sum.summing", {"torch", "ray", "flwr", "fl_dp.engine"}),
        ("import fl_dp.federation.server.app", {"ray", "fl_dp.launch"}),
        ("import fl_dp.cli.main", {"torch", "flwr", "ray"}),
        ("import fl_dp.launch.progress_reporter", {"torch", "flwr", "ray"}),
        ("import fl_dp.launch.following", {"torch", "flwr", "ray"}),
        (f"import {CLIENT}", {"tensorboard", "mlflow", "wandb", "fl_dp.reporting.tracking"}),
        ("import fl_dp.reporting.page.write", {"torch", "matplotlib", "jinja2", "markupsafe"}),
        ("import fl_dp.launch.launcher", {"torch", "ray", "flwr"}),
        ("import fl_dp.launch.processes.guard", {"torch", "flwr", "typer"}),
    ],
)
def test_importing_a_part_leaves_the_rest_alone(statement: str, absent: set[str]) -> None:
    code = f"{statement}\nimport sys\nprint(' '.join(set(sys.modules) & {absent!r}))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == []


def modules_of(paths: list[Path]) -> dict[str, Path]:
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in paths
    }


def imported_when_run(path: Path) -> Iterator[str]:
    """Every module that a file imports when it is imported or used, but not those for the type checker."""
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            yield node.module or ""
        else:
            checking = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            waiting += node.orelse if checking and isinstance(node, ast.If) else ast.iter_child_nodes(node)


def import_graph(paths: list[Path], name: Callable[[str], str]) -> dict[str, set[str]]:
    """Which of the modules imports which; modules of the same `name` are one."""
    modules = modules_of(paths)
    graph: dict[str, set[str]] = {name(module): set() for module in modules}
    for module, path in modules.items():
        graph[name(module)] |= {name(other) for other in imported_when_run(path) if other in modules}
    return {module: others - {module} for module, others in graph.items()}


def test_no_module_imports_itself_over_others() -> None:
    """Late imports included: of modules in a circle none can be read alone."""
    TopologicalSorter(import_graph(FILES, lambda module: module)).prepare()  # CycleError names the cycle


@pytest.mark.parametrize("part", sorted({part_of(path) for path in FILES if path.parent != PACKAGE}))
def test_no_folder_of_a_part_imports_itself_over_others(part: str) -> None:
    """The folders and files directly in a part: fl_dp.engine.tracing is one, fl_dp.engine.probe another."""
    files = [path for path in FILES if part_of(path) == part]
    TopologicalSorter(import_graph(files, lambda module: ".".join(module.split(".")[:3]))).prepare()


def test_no_part_imports_itself_over_others() -> None:
    files = [path for path in FILES if part_of(path) != "__init__"]
    TopologicalSorter(import_graph(files, lambda module: ".".join(module.split(".")[:2]))).prepare()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_import_goes_around_the_floors(path: Path) -> None:
    """Neither by the names of the package itself, which are those of all floors, nor by a name in a text."""
    text = path.read_text(encoding="utf-8")
    names = ast.walk(ast.parse(text))
    assert not any(isinstance(node, ast.ImportFrom) and node.module == "fl_dp" for node in names)
    assert not re.search(r"import(_module|__)\(\s*f?[\"']fl_dp", text)
