"""Augmentations of images, one per file, found by name: see `fl_dp/choices.py`."""
