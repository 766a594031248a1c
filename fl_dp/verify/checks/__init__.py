"""The checks of `fl-dp verify`, one per file; the file's name is the check's.

Each file ends with `CHECK = Check(...)`, see `fl_dp.verify.check`.
"""
