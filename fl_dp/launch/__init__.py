"""Launching a federation: one run from a validated request to an exit code."""
