"""What the tests stand on: real servers, faults, waiting, leak checks."""
