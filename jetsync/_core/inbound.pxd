from libc.stddef cimport size_t
from libc.stdint cimport uint64_t

from jetsync._core.csrc cimport (
    jet_buf, jet_frame, jet_parser, jet_slots, jet_span, jet_token_key,
)
from jetsync._core.mailbox cimport Box
from jetsync._core.outbound cimport Outbound
from jetsync._core.seat cimport Seat
from jetsync._core.sync cimport Leaf


cdef class Inbound(Seat):
    cdef Leaf route_lock
    cdef jet_slots subs               # guarded by route_lock
    cdef jet_slots replies            # guarded by route_lock
    cdef jet_token_key key            # of reply tokens; never changes
    cdef jet_buf buf                  # the rest belongs to whoever has the seat
    cdef jet_parser parser
    cdef jet_buf raw                  # on a filtered link: where bytes are received
    cdef object filter                # None: what comes is plain
    cdef int errno_                   # why the last link ended
    cdef str trouble                  # what the filter said
    cdef Outbound outbound
    cdef dict boxes                   # key -> Mailbox: keeps alive what the tables point to
    cdef dict reply_boxes
    cdef bytes reply_prefix
    cdef const char *reply_prefix_ptr # guarded by route_lock, with the two below
    cdef size_t reply_prefix_len
    cdef uint64_t reply_sid
    cdef uint64_t msgs, bytes_, unmatched_, reads_

    cdef int _receive(self, int fd, bint filtered) noexcept nogil
    cdef str _decrypt(self, bytes data)
    cdef int _parse(self, jet_span *text) noexcept nogil
    cdef Box *_route(self, jet_frame *f) noexcept nogil
    cdef tuple _event(self, int kind, jet_span text)
