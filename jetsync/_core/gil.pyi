"""Gil: waits for a link that keep the GIL where a thread computes."""

def kept() -> float:
    """The seconds for which waits of this process have kept the GIL so far."""
