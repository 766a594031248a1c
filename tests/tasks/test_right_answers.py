"""The default metric is computed without what the import of torchmetrics brings."""

import subprocess
import sys


def test_the_metrics_of_a_run_that_names_none_import_neither_torchmetrics_nor_triton() -> None:
    code = (
        "import sys\n"
        "import fl_dp.tasks.metrics.shares\n"
        "print([name for name in ('torchmetrics', 'torchvision', 'triton') if name in sys.modules])\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"
