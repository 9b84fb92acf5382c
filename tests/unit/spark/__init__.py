"""jetsync.spark without Spark session and without servers."""
