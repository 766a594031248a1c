"""The figures of a page, a file for each kind. A table beside each has its numbers."""
