"""Changes of images, one a file; found by name, see `fl_dp/choices.py`."""
