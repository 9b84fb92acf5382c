cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t

from jetsync._core.csrc cimport jet_record


# The acknowledgement state of a message.
cpdef enum:
    DONE = 1       # a terminal acknowledgement was sent
    ACKED = 2      # and it was a positive one
    CONFIRMED = 4  # and the server has confirmed it


cdef class AckStates:
    """The acknowledgement state of each message of a batch; all objects of a message share it."""
    cdef uint8_t *flags
    cdef size_t count
    cdef double since           # see Msg.since


@cython.no_gc
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
    cdef AckStates ack_states            # of the batch it belongs to, or None
    cdef size_t row             # its place in that batch
    cdef uint8_t flags          # without a batch: its acknowledgement state
    cdef double since           # the same: when it was received at the latest, or kept alive


cdef class MessageFactory:
    """Builds messages of one type and remembers the last subject."""
    cdef object msg_type
    cdef bint plain             # msg_type is exactly Msg
    cdef object owner           # weak, or None
    cdef object context         # the same
    cdef str last_subject

    cdef Msg make(self, jet_record *r)
    cdef tuple owners(self)
