"""Real Spark, real nats-server: the source, the sink, restarts and kills."""
