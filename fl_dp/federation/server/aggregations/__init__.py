"""How the updates of a round become one: one file an aggregation, named as users write it.

A file here holds `AGGREGATION`, a class that is an `Aggregation` (../aggregation.py), and nothing has to be
entered anywhere else. One that needs every client's update by itself says so: `needs_single_updates`.
"""
