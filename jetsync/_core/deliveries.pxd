from libc.stdint cimport uint64_t

from jetsync._core.handles cimport Publishing
from jetsync._core.mailbox cimport Mailbox
from jetsync._core.message cimport Msg


cdef class Sequences:
    cdef public uint64_t stream   # stream sequence of the last delivery
    cdef uint64_t consumer        # its consumer sequence, if `known`
    cdef bint known


cdef class Deliveries:
    cdef Publishing nc
    cdef public Mailbox mailbox
    cdef public Sequences sequences
    cdef public bint ordered
    cdef public bint is_open
    cdef public uint64_t taken
    cdef public uint64_t stop_at

    cdef Msg quick(self)
