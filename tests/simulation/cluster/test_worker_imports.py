import subprocess
import sys

import pytest

SCRIPT = """
import fl_dp.simulation.cluster.worker_imports
import gc, sys
assert "fl_dp.simulation.actor.training_actor" in sys.modules
assert gc.isenabled()
assert gc.get_freeze_count() > 100_000
"""


@pytest.mark.slow
def test_the_actor_is_imported_and_its_modules_are_not_looked_through_again():
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)
