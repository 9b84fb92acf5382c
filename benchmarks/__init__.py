"""What jetsync costs: the compiled core alone, and whole workloads against a real server."""
