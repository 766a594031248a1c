"""Imported by each of Ray's processes when it starts, so that an actor finds its modules imported already.

The garbage collector is off meanwhile: it would look through the same objects again and again, which takes a
sixth of the time. None of them is ever freed.
"""

import gc

gc.disable()
import fl_dp.simulation.actor.training_actor  # noqa: E402, F401

gc.freeze()
gc.enable()
