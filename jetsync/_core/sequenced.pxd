from libc.stdint cimport uint64_t

from jetsync._core.csrc cimport jet_status
from jetsync._core.outbound cimport Outbound
from jetsync._core.window cimport PublishWindow


cdef enum:
    FULL = 1    # a result of adding a message, beside the encoder's statuses


cdef class SequencedWindow(PublishWindow):
    cdef bint chunk_open

    cdef bint _has_room(self) noexcept
    cdef jet_status _chunk(self) noexcept
    cdef bint overtaken(self, uint64_t end) noexcept
    cdef bint _has_room_for_plain(self) noexcept
    cdef bint add_plain(self, subject, data, reply, bytes header) except -1
    cdef object too_much(self, double waited)


cdef SequencedWindow window_ahead(Outbound outbound)
