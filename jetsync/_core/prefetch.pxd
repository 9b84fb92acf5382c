from libc.stddef cimport size_t
from libc.stdint cimport int64_t

from jetsync._core.csrc cimport jet_chain, jet_record
from jetsync._core.message cimport MessageFactory, Msg


cdef class PrefetchBuffer:
    cdef jet_chain chain    # owned by the thread that is inside
    cdef double since       # see Msg.since
    cdef MessageFactory factory        # what the batch had that was taken over last
    cdef tuple owners
    cdef size_t threshold    # so many left: the next one is taken with `_slow_next` (atomic)
    cdef int64_t left       # messages that may still come in; below 0: any number
    cdef int inside         # a thread is at work here (atomic)

    cdef Msg quick(self)
    cdef Msg ready(self)
    cdef Msg make(self)
