"""The C library and the core with bytes drawn at random."""
