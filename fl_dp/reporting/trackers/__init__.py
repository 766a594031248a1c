"""Experiment trackers: one file for each, named as users write it.

Each file holds `TRACKER = Tracker(...)`, see `fl_dp/reporting/tracking.py`. It imports its package late, and
writes nothing about this machine: no code, no host or user name, no path, no console, no system metrics.
"""
