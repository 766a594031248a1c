"""Settings by a stated rule, from what is public about a run: see docs/defaults.md."""
