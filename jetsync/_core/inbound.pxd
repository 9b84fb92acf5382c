from jetsync._core.csrc cimport jet_buf, jet_span
from jetsync._core.link cimport link_filtered, link_inbound
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
    cdef tuple _event(self, int kind, jet_span text)
