"""Programs that a run's numbers are also written for: a file for each, named as users write it.

A file here holds `TRACKER = Tracker(...)`, see `fl_dp/reporting/tracker.py`. It imports its package late, and
writes nothing of this machine: no code, no host or user name, no path, no console, no system metrics.
"""
