"""The compiled core, on socket pairs: no server."""
