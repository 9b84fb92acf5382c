"""The local nats-server for tests."""
