"""What a worker keeps of the rate of a bare loop over messages."""
