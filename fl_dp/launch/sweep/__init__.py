"""Many runs that differ in settings and seeds: planned, costed, started and compared."""
