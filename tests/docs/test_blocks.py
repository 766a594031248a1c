"""Every command on a page is run by a test, or says why not; and all that it names is there."""

import re
import shlex
from pathlib import Path

import click
import pytest
import typer
from docs.blocks import KINDS, PAGES, ROOT, all_blocks
from docs.scenes import SCENES

from fl_dp.cli.main import app
from fl_dp.cli.run import run

BLOCKS = all_blocks()
GROUP = typer.main.get_command(app)
NAMED = re.compile(r"(?<![\w/.-])fl-dp (?=[a-z])[^`\n|#)]*")


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_a_block_says_who_runs_it(block):
    assert block.kind in KINDS, (
        f"{block.name}: no comment above says who runs these commands; tests/docs/blocks.py has the four: "
        "<!-- run: SCENE -->, <!-- checked: WHY -->, <!-- run by: tests/FILE.py -->, <!-- not run: WHY -->"
    )
    if block.kind == "run":
        scene = block.about.partition(", exit ")[0]
        assert scene in SCENES, f"{block.name}: there is no scene {scene}"
    if block.kind == "run by":
        assert block.page.name in (ROOT / block.about).read_text(), f"{block.about} does not name the page"
    if block.kind in ("checked", "not run"):
        assert len(block.about) > 10, f"{block.name}: say why"


def test_most_commands_of_readme_and_docs_are_run():
    count = dict.fromkeys(KINDS, 0)
    for block in BLOCKS:
        if block.page.parent in (ROOT, ROOT / "docs"):
            count[block.kind] += len(block.commands())
    assert count["run"] + count["run by"] > count["not run"], count


def named_commands() -> list[tuple[str, str]]:
    """(page, words) of each `fl-dp COMMAND ...` in a block or in a sentence."""
    found = []
    for page in PAGES:
        text = re.sub(r"\\\n\s*", "", page.read_text(encoding="utf-8"))
        found += [(page.relative_to(ROOT).as_posix(), match[0].strip()) for match in NAMED.finditer(text)]
    return found


def command_of(words: list[str]) -> tuple[click.Command, list[str]]:
    command, rest = GROUP, words
    while isinstance(command, click.Group) and rest and rest[0] in command.commands:
        command, rest = command.commands[rest[0]], rest[1:]
    return command, rest


def unknown(words: list[str]) -> list[str]:
    """The options among the words that the command does not have."""
    command, rest = command_of(words)
    assert command is not GROUP, f"fl-dp has no command {words[0]}"
    return _not_of(command, rest)


def _not_of(command: click.Command, words: list[str]) -> list[str]:
    known = {name for one in command.params for name in [*one.opts, *one.secondary_opts]} | {"--help"}
    return [word for word in words if re.match(r"--[a-z]", word) and word.partition("=")[0] not in known]


@pytest.mark.parametrize(("page", "words"), named_commands())
def test_what_a_page_calls_fl_dp_with_is_there(page, words):
    parts = words.replace("'", " ").replace('"', " ").split()[1:]
    if not isinstance(GROUP, click.Group) or parts[0].rstrip(",.:;") not in GROUP.commands:
        pytest.fail(f"{page}: fl-dp has no command {parts[0]}")
    assert unknown(parts) == [], page


def test_what_a_page_calls_run_sh_with_is_there():
    command = typer.main.get_command(run)
    lines = [
        (block.name, line) for block in BLOCKS for line in block.commands() if line.startswith("./run.sh")
    ]
    assert len(lines) > 20
    for name, line in lines:
        assert _not_of(command, shlex.split(line, comments=True)) == [], (name, line)


def test_an_option_that_is_not_there_is_found():
    assert unknown(["ledger", "show", "PATH", "--nonsense"]) == ["--nonsense"]
    assert unknown(["ledger", "show", "PATH", "--json"]) == []


def test_every_page_in_the_navigation_is_there_and_every_page_is_in_it():
    navigation = set(re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    made = {
        "commands.md",
        "benchmarks.md",
        "deploy.md",
        "contributing.md",
        "changelog.md",
        "index.md",
        "security.md",
    }
    docs = {file.name for file in (ROOT / "docs").glob("*.md")}
    assert navigation == made | docs, "mkdocs.yml: the navigation is not that of docs/"


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_the_readme_is_short_and_loads_nothing_from_elsewhere():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) < 1200
    for image in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text):
        assert (ROOT / Path(image)).exists()
