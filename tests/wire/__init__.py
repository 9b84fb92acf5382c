"""The wire: vectors, the oracle in plain Python (never shipped), and tests that compare with it."""
