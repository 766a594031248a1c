"""Models: one file each, named as users write it; `tanh_cnn.py` is `tanh-cnn`.

Each file holds `MODEL`, a `fl_dp.models.build.Model`; no other registration is needed.
"""
