"""For Python programs: a run called as a function, and what is left of a run, wherever it was made."""
