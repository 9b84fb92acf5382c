from libc.stdint cimport uint8_t, uint64_t


cdef class Outcome:
    cdef readonly object window     # None when it is settled
    cdef readonly str stream
    cdef readonly uint64_t seq
    cdef readonly bint duplicate
    cdef readonly bytes text        # of an acknowledgement that says more
    cdef readonly object error
    cdef readonly object waiter
    cdef public object callbacks
    cdef uint8_t state
