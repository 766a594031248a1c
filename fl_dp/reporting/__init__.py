"""What a run reports to its user: lines on the console, JSON for programs, files in its folder."""
