"""Data sources: one file each, named as users write it.

A file here holds `SOURCE`, a `fl_dp.data.source.Source`, and nothing has to be entered anywhere else. One
whose argument names a path says so: `is_path`.
"""
