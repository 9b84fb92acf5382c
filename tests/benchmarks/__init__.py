"""The benchmarks work; nothing here judges a speed."""
