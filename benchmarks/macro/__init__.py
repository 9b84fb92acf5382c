"""Whole workloads against a real nats-server, jetsync side by side with other clients."""
