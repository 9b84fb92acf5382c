from libc.stdint cimport uint8_t

from jetsync._core.message cimport Msg


cdef class Delivered(Msg):
    cdef uint8_t ack_state(self) noexcept
    cdef void set_ack_state(self, uint8_t flags) noexcept
    cdef double age(self) noexcept
    cdef bint is_settled(self) except -1
    cdef int settle(self, bytes payload, uint8_t flags, bint resend, bint wake=*,
                    double deadline=*) except -1
    cdef int publish_ack(self, bytes payload, bint resend, bint wake=*,
                         double deadline=*) except -1
