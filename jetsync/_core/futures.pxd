from libc.stdint cimport uint8_t, uint64_t


cdef class PubAckFuture:
    cdef object window     # None when it is settled
    cdef str stream
    cdef uint64_t seq
    cdef bint duplicate
    cdef bytes text        # of an acknowledgement that says more
    cdef object error
    cdef readonly object waiter
    cdef public object callbacks
    cdef uint8_t state

    cdef object acknowledgement(self)
    cdef int wait(self, timeout) except -1
