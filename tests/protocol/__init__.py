"""URLs, credentials, names, states: what is known without a connection."""
