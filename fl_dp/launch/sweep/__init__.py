"""Many runs that differ in settings and seeds: planned and costed, started, compared."""
