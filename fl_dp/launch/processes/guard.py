"""Ends the processes of a launch if the launcher is killed before it can.

Runs as `python -m fl_dp.launch.processes.guard LAUNCH_ID SCRATCH`. The launcher holds the other end of
standard input, which closes however the launcher ends. The guard then ends what is left of the launch and
deletes its scratch folder.
"""

import shutil
import sys

from fl_dp.launch.processes.processes import end_launch


def main() -> None:
    launch_id, scratch = sys.argv[1:]
    sys.stdin.buffer.read()
    end_launch(launch_id)
    shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
