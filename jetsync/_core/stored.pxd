from jetsync._core.message cimport Maker


cdef class StoredMaker(Maker):
    """Builds messages that a direct get brought."""
