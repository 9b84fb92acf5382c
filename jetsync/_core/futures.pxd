from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t

from jetsync._core.csrc cimport jet_span
from jetsync._core.window cimport PublishWindow


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


cdef class AsyncWindow(PublishWindow):
    cdef readonly object keeper     # who settles the window
    cdef public bint auto_ids       # what a call without options asks for
    cdef public double timeout
    cdef public bint idle           # nobody looks at the window until its keeper is woken
    cdef public bint ended          # nobody settles anything any more
    cdef list outcomes              # a ring like the others
    cdef double *deadlines
    cdef bint chunk_open
    cdef uint64_t waiting_first     # messages from here on were not handed over yet
    cdef size_t waiting_from        # where their frames begin in the open chunk
    cdef str stream
    cdef bytes stream_bytes
    cdef list settled

    cdef PubAckFuture add(self, subject, data, bytes block, bint auto_id, double seconds)
    cdef PubAckFuture _publish(self, jet_span subject, jet_span payload, bytes block, bint auto_id,
                               double seconds)
    cdef int _end(self, uint64_t number, PubAckFuture outcome, uint8_t state) except -1
