"""The C library: its own suites, its threads, its coverage, and all of it under sanitizers."""
