"""What is learned: a task provides model, losses, data and metrics; each may be left to a built-in one."""
