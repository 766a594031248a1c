"""A data protection officer's check of a run from its files: what agrees, differs or is missing.

Epsilons are recomputed by dp_accounting, never by fl_dp's own accounting. The files are untrusted: reads are
bounded, and nothing in them is executed.
"""
