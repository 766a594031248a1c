"""Digits at several sites: a plain Flower app, and the same one with a ledger."""
