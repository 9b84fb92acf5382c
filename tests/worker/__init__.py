"""Workers: outcomes, order, restarts, processes."""
