"""Data sources: one file each, named as users write it.

Each file holds `SOURCE`, a `fl_dp.data.source.Source`; no other registration is needed. A source whose
argument is a path says so: `is_path`.
"""
