"""The page of figures for Prometheus."""
