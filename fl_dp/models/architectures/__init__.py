"""Models: one file each, named as users write it; `tanh_cnn.py` is `tanh-cnn`.

A file here holds `MODEL`, a `fl_dp.models.model.Model`, and nothing has to be entered anywhere else.
"""
