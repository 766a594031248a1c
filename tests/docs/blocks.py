"""The blocks of commands in README.md, docs/ and the examples, each with what its comment says of it.

A block is fenced as bash, or indented by four spaces with a command in it. The comment above says one of

    <!-- run: SCENE -->            it is run, as it stands, in that scene of tests/docs/scenes.py
    <!-- checked: WHY -->          its command lines are read and all is checked that is checked before a run
    <!-- run by: tests/FILE.py --> that test takes it from the page and runs it
    <!-- not run: WHY -->          it cannot be run here
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        ROOT / "benchmarks" / "README.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("README.md"),
        ROOT / "deploy" / "README.md",
    ]
)
KINDS = ("run", "checked", "run by", "not run")

_SHELLS = {"bash", "sh", "console", "shell"}
_COMMAND = re.compile(
    r"^(\$ )?([A-Z_]+=\S+ )*(fl-dp|\./run\.sh|python3?|pip|\.venv/bin/\S+|make|flwr|git|helm|kubectl|"
    r"(server|client)\.py|ray|srun|torchrun|mv|export) ?"
)
_COMMENT = re.compile(r"^ *<!-- (run by|run|checked|not run): (.+) -->$")


@dataclass(frozen=True)
class Block:
    """number: of its first line in the page. words: of the fence, such as ("bash", "north")."""

    page: Path
    number: int
    words: tuple[str, ...]
    text: str
    kind: str
    about: str

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.number}"

    def commands(self) -> list[str]:
        """One text a command: continued lines are joined; what a `$ ` block prints is left out."""
        lines = re.sub(r"\\\n\s*", "", self.text).splitlines()
        if any(line.startswith("$ ") for line in lines):
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        return [line for line in lines if line.strip() and not line.startswith("#")]

    def printed(self) -> str:
        """What the page says that the command of a `$ ` block prints."""
        lines = self.text.splitlines()
        return "\n".join(line.rstrip() for line in lines if not line.startswith("$ ")).strip()


def blocks_of(page: Path) -> list[Block]:
    """All blocks of commands of a page; `kind` is empty where no comment says one."""
    return [block for block in _all_blocks(page) if _has_commands(block)]


def all_blocks() -> list[Block]:
    return [block for page in PAGES for block in blocks_of(page)]


def file_in(page: Path, name: str) -> str:
    """The block of a page whose first line is `# NAME`."""
    found = [block.text for block in _all_blocks(page) if block.text.startswith(f"# {name}\n")]
    assert len(found) == 1, f"{page}: {len(found)} blocks begin with # {name}"
    return found[0]


def _has_commands(block: Block) -> bool:
    if block.words:
        return block.words[0] in _SHELLS
    return any(_COMMAND.match(line) for line in block.text.splitlines())


def _all_blocks(page: Path) -> Iterator[Block]:
    lines = page.read_text(encoding="utf-8").splitlines()
    at, comment = 0, ("", "")
    while at < len(lines):
        if found := _COMMENT.match(lines[at]):
            comment = found[1], found[2]
        elif fence := re.match(r"^( *)```(\S.*)?$", lines[at]):
            end = next(n for n in range(at + 1, len(lines)) if lines[n].strip() == "```")
            words = tuple((fence[2] or "text").split())
            yield Block(page, at + 1, words, _dedent(lines[at + 1 : end]), *comment)
            at, comment = end, ("", "")
        elif lines[at].startswith("    ") and not lines[at - 1].strip():
            end = at
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            yield Block(page, at + 1, (), _dedent(lines[at:end]), *comment)
            at, comment = end - 1, ("", "")
        elif lines[at].strip():
            comment = ("", "")
        at += 1


def _dedent(lines: list[str]) -> str:
    least = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(line[least:] for line in lines).rstrip() + "\n"
