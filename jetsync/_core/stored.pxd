from jetsync._core.message cimport MessageFactory


cdef class StoredFactory(MessageFactory):
    """Builds messages that a direct get brought."""
