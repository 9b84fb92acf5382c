"""jetsync.prometheus."""
