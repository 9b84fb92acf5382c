from libc.stdint cimport int64_t, uint64_t


cdef class PullOptions:
    cdef readonly int64_t batch
    cdef readonly double expires
    cdef readonly object max_bytes
    cdef readonly object heartbeat
    cdef readonly bint no_wait
    cdef readonly object group, min_pending, min_ack_pending, priority, id

    cdef PullOptions within(self, config, object pin, bint is_exact)


cdef class Pull:
    cdef readonly uint64_t number
    cdef public int64_t remaining
    cdef public int64_t remaining_bytes   # -1: bytes are not limited
    cdef readonly double lapses
    cdef readonly object pin


cdef class PullLedger:
    cdef list pulls                  # of Pull, the oldest first
    cdef readonly uint64_t number
    cdef uint64_t first
    cdef uint64_t served             # how many were served in full
    cdef int64_t unclaimed
    cdef double since                # when a sign of life may have come since the last pull
    cdef double round_trip
    cdef double last_lapse
    cdef double beat
    cdef readonly uint64_t sign_reads
    cdef public double asked_at
    cdef public double not_before
    cdef double backoff
    cdef double wary_until

    cdef int64_t count_outstanding(self) noexcept
    cdef int64_t count_outstanding_bytes(self) noexcept
    cdef int64_t count_waiting(self, int64_t pending) noexcept
    cdef int64_t count_waiting_bytes(self, int64_t pending_bytes) noexcept
    cdef uint64_t note_sent(self, PullOptions options, double now, size_t waiting,
                            uint64_t reads, double round_trip) except? 0
    cdef int note_took(self, int64_t count, int64_t size, uint64_t reads) except -1
    cdef int charge(self, int64_t count, int64_t size) except -1
    cdef int forget_served(self) except -1
    cdef Pull remove(self, uint64_t number)
    cdef double patience_now(self) noexcept
    cdef double due(self, double now, double last_put, double *patience) noexcept
    cdef double length(self, double expires, double now, bint aligned) noexcept
    cdef object heartbeat_of(self, object wanted, double expires, double now)
