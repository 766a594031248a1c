"""A data protection officer's check of a run, from its files alone: what agrees, what does not, and what was not given.

Epsilons are recomputed by dp_accounting, never by fl_dp's own accounting. The files are untrusted: reads are
bounded, and nothing in them is executed.
"""
