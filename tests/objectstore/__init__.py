"""Object store buckets."""
