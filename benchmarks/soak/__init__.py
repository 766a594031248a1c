"""Real processes for many rounds, while their server, clients, disks and cables fail at random."""
