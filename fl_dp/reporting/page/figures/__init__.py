"""The pictures of a page, a file for each kind. Each has its numbers in a table beside it."""
