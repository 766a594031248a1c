"""Imported by each of Ray's processes when it starts, so that an actor's modules are already imported.

The garbage collector is off meanwhile: it would scan the same objects repeatedly, which takes a sixth of the
time. None of them is ever freed.
"""

import gc

gc.disable()
import fl_dp.simulation.actor.training_actor  # noqa: E402, F401

gc.freeze()
gc.enable()
