cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport uint64_t

from jetsync._core.csrc cimport jet_buf, jet_span
from jetsync._core.link cimport link_outbound, link_put, link_share, link_waiter


@cython.final
cdef class Outbound:
    cdef link_outbound link
    cdef object filter                 # None: bytes leave as they are
    cdef public object on_resend       # called when a first frame is put into the resend buffer
    cdef public double write_timeout
    cdef public size_t max_payload
    cdef uint64_t tickets              # given to messages of publish windows, in their order
    cdef readonly tuple windows        # publish windows that other publishes must not overtake
    cdef tuple retracted               # their reply prefixes: they send again themselves
    cdef object __weakref__

    cdef int publish_spans(self, jet_span subject, jet_span reply, jet_span header,
                           jet_span payload, bint wake, double deadline,
                           uint64_t link) except -1
    cdef int reply_spans(self, jet_span subject, jet_span reply, jet_span payload,
                          bint resend=*, double deadline=*, uint64_t link=*, bint wake=*) except -1
    cdef int append_frames(self, jet_span frames, uint64_t count, bint resend=*,
                           bint wake=*, double deadline=*) except -1
    cdef bint offer_frames(self, jet_span frames, uint64_t count, uint64_t link,
                           bint wake, link_share *share=*) noexcept
    cdef int send_held(self) except -1
    cdef uint64_t link_number(self) noexcept
    cdef uint64_t link_now(self) noexcept
    cdef int _retract(self) except -1
    cdef int _put(self, link_put *p, double deadline) except -1
    cdef int _put_slowly(self, link_put *p, double deadline, int result) except -1
    cdef bint _sleep(self, link_waiter *waiter, double deadline) except -1
    cdef int _refuse(self, int result, jet_span subject, double waited) except -1
    cdef bint _append_line(self, bytes line) except -1
    cdef int _encode(self, bytes data, jet_buf *out) except -1


cdef int put_message(Outbound out, subject, data, reply, bytes header, bint wake,
                     double deadline, uint64_t link) except -1
