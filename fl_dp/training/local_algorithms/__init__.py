"""What clients do beside descending: a file each, named as users name it. See `local_algorithm.py`."""
