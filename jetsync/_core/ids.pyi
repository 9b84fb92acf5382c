"""Ids: NUIDs, made in one step that no thread and no signal handler comes between."""

def next_nuid() -> str:
    """Return a new NUID: 22 random base62 characters, 131 bits from the system's random generator.

    It is unique across machines and cannot be guessed, whatever other ids are known. Does not
    block; callable from any thread, signal handler or child.
    """
