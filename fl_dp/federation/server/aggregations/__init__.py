"""How the updates of a round become one: one file for each aggregation, by the name that users write.

A file here holds `AGGREGATION`, a subclass of `Aggregation` (../aggregation.py); nothing has to be registered
elsewhere. One that needs every client's update separately sets `needs_single_updates`.
"""
