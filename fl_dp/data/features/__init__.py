"""Fixed functions of one record, which a model is given in its place: one file each, named as users write it.

A file here holds `FEATURES`, a `fl_dp.data.fixed_features.Features`, and nothing has to be entered anywhere
else. Nothing in it may be fitted, drawn or counted over records. Sites compare the name: what it computes
must not change later.
"""
