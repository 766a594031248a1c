"""Adding a choice takes one file or one row, and a client's number two lines: nothing else has to be edited.

A copy of the package gets a choice of every kind at once, those of adding/fl_dp: each file there is new, or
is added to the one of its name, table to table. What is expected of them stands in adding/uses.py, which
pytest runs in that copy.
"""

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import fl_dp
from fl_dp.records import LocalUpdate

ROOT = Path(__file__).parents[1]
ADDING = Path(__file__).parent / "adding"
TABLE = "CHOICES = {\n"
# The example of docs/engine.md, as it stands there.
PRELU = re.search(r'```python\n("""PReLU.*?)```', (ROOT / "docs/engine.md").read_text(), re.DOTALL)
# A number that a client sends: in which file, behind what, and what is written there.
NUMBER = [
    (
        "records.py",
        'Leaves("computed from spent")]\n',
        '    rounds_before: Annotated[int, Leaves("counted by the ledger", shown=True)]\n',
    ),
    ("federation/client/round.py", "epsilon_of(spent),", " paid.accepted.plan.server_round - 1,"),
]


def added(text: str, file: Path) -> None:
    """Write the text to a new file; or add what it defines, and the rows of its table, to the file."""
    if file.exists():
        head, rows = text.split(TABLE)
        before, after = file.read_text().split(TABLE)
        text = before.rstrip() + "\n\n\n" + head + TABLE + rows.removesuffix("}\n") + after
    file.write_text(text)


def test_a_file_or_a_row_for_every_kind_of_choice_is_all_that_it_takes(tmp_path: Path) -> None:
    package = tmp_path / "fl_dp"
    shutil.copytree(Path(fl_dp.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in (ADDING / "fl_dp").rglob("*.py"):
        added(file.read_text(), package / file.relative_to(ADDING / "fl_dp"))
    assert PRELU is not None
    (package / "engine/rules/prelu.py").write_text(PRELU[1])
    for file, place, line in NUMBER:
        before, found, after = (package / file).read_text().partition(place)
        assert found, f"{file}: NUMBER says behind which text a client's number is put; {place!r} is gone"
        (package / file).write_text(before + found + line + after)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--basetemp", "tried", ADDING / "uses.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout


def test_a_number_that_nobody_fills_in_is_noticed() -> None:
    """By the type checker, and in the first round: a field of what leaves has no default."""
    assert all(field.default is dataclasses.MISSING for field in dataclasses.fields(LocalUpdate))
