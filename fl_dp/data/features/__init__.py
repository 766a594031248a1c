"""Fixed functions of one record that replace it as a model's input: one file each, named as users write it.

Each file holds `FEATURES`, a `fl_dp.data.fixed_features.Features`; no other registration is needed. Nothing
in it may be fitted, sampled or counted over records. Sites compare the name, so its computation must not
change later.
"""
