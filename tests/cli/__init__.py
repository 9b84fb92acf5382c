"""The command jetsync."""
