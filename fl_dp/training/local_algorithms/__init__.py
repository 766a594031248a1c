"""Local algorithms, one per file, named as users name them. See `local_algorithm.py`."""
