"""Threads against each other: order, exactly once, bounded waits, interrupts, forks, sanitizers."""
