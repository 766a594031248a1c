"""What a run tells its user: lines on the console, JSON for programs, the files that it leaves."""
