from libc.stdint cimport uint8_t, uint32_t, uint64_t

from jetsync._core.csrc cimport jet_span
from jetsync._core.sequenced cimport SequencedWindow


cdef class AckForm:
    cdef type kind
    cdef object decode

    cpdef object make(self, str stream, uint64_t seq, bint duplicate)


cdef class PubAckFuture:
    cdef object window     # None when it is settled
    cdef AckForm form
    cdef bytes expected    # the stream that has to confirm it; None: any
    cdef str stream
    cdef uint64_t seq
    cdef bint duplicate
    cdef uint32_t forks    # tells the process that made it from its forked children
    cdef bytes text        # of an acknowledgement that says more
    cdef object error
    cdef readonly object _waiter
    cdef public object _callbacks
    cdef readonly str _subject     # once it is settled, where it has callbacks
    cdef uint8_t state

    cdef bint pending(self) except -1
    cdef object acknowledgement(self)
    cdef int wait(self, timeout) except -1


cdef class AsyncWindow(SequencedWindow):
    cdef readonly object keeper     # the object that settles the window
    cdef AckForm form
    cdef public bint auto_ids       # what a call without options asks for
    cdef public double timeout
    cdef public bint idle           # its keeper sleeps: a publish has to wake it
    cdef list outcomes              # a ring like the others
    cdef double *deadlines
    cdef size_t gathered            # bytes added since messages were handed over last
    cdef str stream
    cdef bytes stream_bytes
    cdef list settled

    cdef PubAckFuture add(self, subject, data, bytes block, bint auto_id, double seconds,
                          bytes expected=*)
    cdef int _put(self, PubAckFuture outcome, jet_span subject, jet_span payload, bytes block,
                  bint auto_id, double seconds) noexcept
    cdef int _end(self, uint64_t number, PubAckFuture outcome, uint8_t state) except -1
