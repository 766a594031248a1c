"""An officer's check of a run, from its files alone: what agrees, what does not, and what was not given.

Nothing here asks fl_dp's own accounting for an epsilon: dp_accounting is asked. The files are untrusted: they
are read in bounds, and nothing in them is executed.
"""
