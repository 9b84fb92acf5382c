from libc.stdint cimport uint64_t

from jetsync._core.csrc cimport jet_buf, jet_span
from jetsync._core.link cimport link_filtered, link_inbound
from jetsync._core.mailbox cimport Mailbox
from jetsync._core.outbound cimport Outbound


cdef class Inbound:
    cdef link_inbound link_
    cdef Outbound outbound
    cdef object filter       # None: what comes is plain
    cdef str trouble         # why the filter failed
    cdef dict mailboxes          # key -> Mailbox: keeps alive what the tables point to
    cdef dict reply_mailboxes
    cdef bytes reply_prefix

    cdef link_filtered _decode(self, bytes data, jet_buf *out) noexcept
    cpdef uint64_t add_reply(self, Mailbox mailbox) except 0
    cpdef str reply_token(self, uint64_t token)
    cpdef remove_reply(self, uint64_t token)
    cdef tuple _event(self, int kind, jet_span text)
