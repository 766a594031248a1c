"""What a model is trained to make small: one file a loss, named as users write it (`cross_entropy.py`).

A file here holds `LOSS`, a `fl_dp.training.loss.Loss`, and nothing has to be entered anywhere else. A change
of what an existing loss computes is a change of results: raise `fl_dp.records.NUMERICS` with it.
"""
