"""What `make docs` makes of docs/, README.md and the other pages of the repository."""
