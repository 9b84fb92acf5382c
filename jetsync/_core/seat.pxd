from jetsync._core.csrc cimport jet_span
from jetsync._core.sync cimport Gate, Leaf


cdef class Seat:
    cdef Leaf lock
    cdef Gate gate              # where the reader waits for a caller to leave
    cdef int bell               # epoll: rings when there is something to read; -1: nobody else may
    cdef int note               # eventfd: rings the bell although nothing can be read
    cdef int fd                 # of the link
    cdef bint taken             # guarded by `lock`, with the two below
    cdef int left               # an event that a caller came across: for the reader
    cdef jet_span left_text

    cdef int look(self, int fd, jet_span *text) noexcept nogil
    cdef bint take(self) noexcept nogil
    cdef bint read(self, double until) noexcept nogil
    cdef void leave(self) noexcept nogil
    cdef int lend(self, jet_span *text) noexcept nogil
