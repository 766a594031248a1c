"""Starting a federation from a shell: arguments, Flower's processes, clean-up, exit codes."""
