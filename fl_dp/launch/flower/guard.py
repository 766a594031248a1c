"""Ends the processes of a launch whose launcher was killed before it could.

Runs as `python -m fl_dp.launch.flower.guard LAUNCH_ID SCRATCH`. The launcher holds the other end of
standard input; when it closes, however the launcher ended, nothing of the launch may live on, and
its scratch folder goes.
"""

import shutil
import sys

from fl_dp.launch.flower.processes import end_launch


def main() -> None:
    launch_id, scratch = sys.argv[1:]
    sys.stdin.buffer.read()
    end_launch(launch_id)
    shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
