from jetsync._core.csrc cimport jet_record


cdef class Msg:
    cdef readonly str subject
    cdef readonly bytes data
    cdef readonly bytes raw_headers
    cdef readonly int status
    cdef bytes reply_bytes
    cdef str reply_text
    cdef object parsed          # Headers, once asked for
    cdef public object _owner   # the Connection, for respond()
    cdef public object _context # for upper rooms
    cdef public int _flags      # for upper rooms


cdef class Maker:
    """Builds messages of one type and remembers the last subject."""
    cdef object msg_type
    cdef bint plain             # msg_type is exactly Msg
    cdef object owner           # weak, or None
    cdef object context         # the same
    cdef str last_subject
    cdef bytes last_subject_bytes

    cdef Msg make(self, jet_record *r)
    cdef tuple kept(self)
