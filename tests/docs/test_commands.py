"""The commands of the pages, run word by word in copies of the checkout, one for each scene."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import click
import pytest
import typer
from docs.blocks import ROOT, Block, all_blocks
from docs.scenes import SCENES, Scene

from fl_dp.cli.arguments import read_request, simulation_engine
from fl_dp.cli.run import run
from fl_dp.launch.preflight import check_choices
from scripts.figures import PICTURE, shown, svg

BLOCKS = all_blocks()
RUN = [block for block in BLOCKS if block.kind == "run"]
CHECKED = [
    (block.page, line)
    for block in BLOCKS
    if block.kind == "checked"
    for line in block.commands()
    if "--resume" not in line
]


@pytest.fixture(scope="module")
def scene_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Scene]:
    made: dict[str, Scene] = {}

    def scene(name: str) -> Scene:
        if name not in made:
            made[name] = Scene(tmp_path_factory.mktemp(name))
            SCENES[name](made[name])
        return made[name]

    return scene


def expected_end(block: Block) -> tuple[str, int]:
    """(scene, exit code of the last command)."""
    name, _, code = block.about.partition(", exit ")
    return name, int(code or 0)


@pytest.mark.slow
@pytest.mark.timeout(1800)  # for all commands of a page, of which each has 600 s
@pytest.mark.parametrize("page", sorted({block.page for block in RUN}), ids=lambda page: page.name)
def test_a_pages_commands_do_what_it_says(page, scene_of):
    for block in [block for block in RUN if block.page == page]:
        name, code = expected_end(block)
        printed = scene_of(name).run("\n".join(block.commands()), code)
        if block.text.startswith("$ "):
            lines = [line.rstrip() for line in printed.strip().splitlines()]
            assert "\n".join(lines) == block.printed(), block.name
        if name == "first" and "./run.sh" in block.text:
            check_picture(printed)
            check_files(scene_of(name).folder / "runs" / "first")


def check_files(run: Path) -> None:
    """docs/files.md names what a run leaves."""
    page = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
    left = {path.name + "/" * path.is_dir() for path in run.iterdir() if not path.name.startswith(".")}
    named = set(re.findall(r"^- `([^`]+)`:", page, re.MULTILINE))
    assert left - named == set(), "docs/files.md: not named"
    assert len(left) > 5


def check_picture(printed: str) -> None:
    """docs/run.svg shows what a run prints today, but for numbers, its folder's name and ends of lines."""
    now, then = (
        re.sub(r"runs/\S+", "runs/NAME", shown(text)).split() for text in (svg(printed), PICTURE.read_text())
    )
    assert now == then, "docs/run.svg is not what ./run.sh prints; draw it again: make figures"


@pytest.mark.parametrize(("page", "line"), CHECKED, ids=lambda value: str(value)[:80])
def test_a_command_that_is_only_checked_asks_for_a_run_that_can_be(page, line, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    words = shlex.split(line.replace("my_task.py", str(tmp_path / "my_task.py")), comments=True)
    (tmp_path / "my_task.py").write_text((ROOT / "fl_dp/cli/new_folder/my_task.py.txt").read_text())
    assert words[0] == "./run.sh", f"{page}: only ./run.sh can be checked"
    given = options_of(words[1:])
    simulation_engine(given["simulate"], given["ray_address"])
    options = {"seed": given["seed"]}
    request = read_request(given["config"], given["words"] or (), given["settings"] or (), options)
    check_choices(request.config)


def options_of(words: list[str]) -> dict[str, object]:
    """What `fl-dp run` would be called with."""
    command = typer.main.get_command(run)
    assert isinstance(command, click.Command)
    return command.make_context("run.sh", words).params


def test_the_picture_is_found_stale():
    printed = "round 1/3  eps 1.79 of 3.00\nresults in runs/x\n"
    assert shown(svg(printed)) == "$ ./run.sh\nround 0/0 eps 0 of 0\nresults in runs/x"
    with pytest.raises(AssertionError, match="make figures"):
        check_picture(printed)
