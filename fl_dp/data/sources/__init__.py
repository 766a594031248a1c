"""Data sources, each a `fl_dp.data.source.Source`.

A source is a file here that holds `SOURCE`, named as users write it, or a row of a table in such a file; no
other registration is needed. A source whose argument is a path says so: `is_path`.
"""
