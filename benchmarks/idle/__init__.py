"""What many idle readers of one connection cost, see benchmarks/README.md."""
