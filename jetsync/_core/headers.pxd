from libc.stddef cimport size_t

from jetsync._core.csrc cimport jet_span


cdef enum:
    PARENT = 55  # bytes of a traceparent


cpdef object received(bytes raw)
cdef bint add_parent(jet_span block, char *texts, size_t *n) noexcept nogil
