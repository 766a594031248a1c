"""The checks of `fl-dp verify`, one a file, whose name is the check's.

A file ends with `CHECK = Check(...)`, see `fl_dp.verify.check`.
"""
