"""The documents of NATS: each file is named after what it holds."""
