"""Losses, one per file, named as users write them (`cross_entropy.py`).

A file here holds `LOSS`, a `fl_dp.training.loss.Loss`; nothing has to be registered elsewhere. Changing what
an existing loss computes changes results: raise `fl_dp.records.NUMERICS` with it.
"""
