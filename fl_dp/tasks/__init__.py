"""What is learned: a task gives model, losses, data and metrics; each part may be left to a built-in one."""
