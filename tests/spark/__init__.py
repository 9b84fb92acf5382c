"""The source and the sink: their parts alone, and with real Spark and a real nats-server."""
