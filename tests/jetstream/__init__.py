"""Streams, consumers, publishing, fetching, acknowledgements, and their configurations."""
