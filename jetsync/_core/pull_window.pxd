from libc.stdint cimport int64_t


cdef class Window:
    cdef readonly int64_t max_messages
    cdef readonly int64_t threshold_messages
    cdef readonly object max_bytes
    cdef int64_t threshold_bytes
    cdef bint grows
    cdef int64_t most
    cdef readonly bint may_grow
    cdef double rate           # messages per second while the user waits for them
    cdef public bint is_whole

    cdef int64_t ask(self, int64_t waiting, int64_t buffered, int64_t waiting_bytes,
                     int64_t buffered_bytes, int64_t left, int64_t *threshold) noexcept
    cdef int64_t ask_bytes(self, int64_t buffered, int64_t waiting_bytes, int64_t buffered_bytes,
                           int64_t left, int64_t *threshold) noexcept
    cdef object size_of(self, int64_t count, int64_t have_bytes)
    cdef int note_took(self, int64_t count, double seconds) except -1
    cdef int note_starved(self, double round_trip, int64_t each) except -1
    cdef int note_slowed(self, int64_t count, double seconds) except -1
    cdef int resize(self, int64_t size) except -1
