"""What the environment of FL_DP_PYTHON lacks to run fl_dp; nothing is printed if it lacks nothing.

    FL_DP_PYTHON=PYTHON ./run.sh

runs this first, with that Python. Exit code 2 says that something is missing.
"""

import re
import sys
from importlib.metadata import PackageNotFoundError, requires, version


def missing() -> list[str]:
    """What to do, a line each."""
    if sys.version_info[:2] not in [(3, 11), (3, 12)]:
        return [f"it is Python {sys.version_info[0]}.{sys.version_info[1]}; fl_dp needs 3.11 or 3.12."]
    try:
        wanted = requires("fl-dp") or []
    except PackageNotFoundError:
        return ["it does not have fl_dp: run its pip install -e . here."]
    names = [re.split(r"[^\w.-]", one, maxsplit=1)[0] for one in wanted if "extra ==" not in one]
    absent = [name for name in names if not _is_there(name)]
    return [f"it does not have {', '.join(absent)}: run its pip install -e . here."] if absent else []


def _is_there(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


if __name__ == "__main__":
    problems = missing()
    for problem in problems:
        print(f"error: FL_DP_PYTHON = {sys.executable}: {problem}", file=sys.stderr)
    sys.exit(2 if problems else 0)
