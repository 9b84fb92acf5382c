"""What a link with a long round trip leaves of the rates, see benchmarks/README.md."""
