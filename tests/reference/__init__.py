"""The wire in plain Python: the oracle of the differential tests, never shipped."""
