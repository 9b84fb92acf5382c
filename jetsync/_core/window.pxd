from libc.stdint cimport uint32_t, uint64_t

from jetsync._core.csrc cimport jet_buf, jet_puback, jet_puback_form, jet_record, jet_span
from jetsync._core.in_flight cimport Entry, InFlight


cdef class PublishWindow(InFlight):
    cdef bytes domain             # how an acknowledgement names its domain; empty: all count
    cdef bytes expected           # the stream that has to acknowledge; empty: any
    cdef jet_puback_form layout  # the form of the confirmations
    cdef jet_buf odd              # answers that Python has to judge
    cdef uint32_t odd_count
    cdef uint64_t copies          # how many messages were sent again
    cdef public double ends       # monotonic: when the time of all messages is over
    cdef public double last_attempt  # seconds before the end of its time in which no copy is sent
    cdef double last_moment       # now, and so much

    cdef int _read_answer(self, jet_record *r) except -1
    cdef bint _expects(self, uint64_t number, jet_span stream) noexcept
    cdef int _confirmed(self, uint64_t number, jet_puback *ack, jet_span payload) except -1
    cdef int _put_aside(self, uint64_t number, int status, jet_span payload) except -1
    cdef list _take_odd(self)
    cdef bint _copy_and_send(self, jet_buf *frames, uint64_t before) noexcept
    cdef bint _may_repeat(self, Entry *entry) noexcept
    cdef double _end_of(self, Entry *entry) noexcept
    cdef bint _send_again(self, uint64_t first, uint64_t end, jet_buf *frames,
                          uint64_t count) noexcept
    cdef jet_span _subject(self, Entry *entry) noexcept
    cdef jet_span _frame(self, Entry *entry) noexcept


cdef bint same(jet_span text, bytes other) noexcept
