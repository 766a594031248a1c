"""What a process of Ray is to have imported before it is given anything to do: it is imported for that alone.

Without the garbage collector: looking again and again through objects that stay takes a sixth of the time.
"""

import gc

gc.disable()
import fl_dp.simulation.actor.training_actor  # noqa: E402, F401

gc.freeze()
gc.enable()
