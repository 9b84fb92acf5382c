from libc.stddef cimport size_t
from libc.stdint cimport uint64_t

from jetsync._core.batch cimport MsgBatch
from jetsync._core.mailbox cimport Mailbox
from jetsync._core.outbound cimport Outbound
from jetsync._core.prefetch cimport PrefetchBuffer
from jetsync._core.pulls cimport PullLedger, PullOptions


cdef class PullLine:
    cdef readonly object consumer
    cdef readonly Mailbox mailbox
    cdef readonly PullLedger state
    cdef public MsgBatch batch
    cdef public object pin        # the place of this client in a priority group, or None
    cdef public uint64_t sent_seq
    cdef public bint has_link_news
    cdef public bint is_linked
    cdef public bint closed
    cdef Outbound outbound
    cdef object presence
    cdef object round_trip        # its `seconds` are the round trip to the server
    cdef str subject
    cdef str prefix               # of the subjects that pulls are answered on
    cdef object batch_type
    cdef PrefetchBuffer rest      # what did not fit into the batch of the last call
    cdef uint64_t charged         # messages, of all that were taken out of the mailbox

    cdef uint64_t send(self, PullOptions options, bint is_exact, object ack, double deadline) except? 0
    cdef object collect(self, size_t limit, double until, size_t least)
