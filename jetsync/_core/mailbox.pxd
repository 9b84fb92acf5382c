from libc.stddef cimport size_t
from libc.stdint cimport uint64_t

from jetsync._core.batch cimport MsgBatch
from jetsync._core.csrc cimport jet_pool, jet_record
from jetsync._core.link cimport (
    link_counts, link_inbound, link_queue, link_queue_counts, link_result,
)
from jetsync._core.message cimport MessageFactory, Msg

cdef jet_pool POOL  # of all mailboxes, and of the batches that their messages went into


cdef class Mailbox:
    cdef MessageFactory factory # beside what each message touches of the queue
    cdef link_queue queue
    cdef link_inbound *reader   # of the link that fills this; NULL: it has none
    cdef object inbound         # keeps `reader` alive
    cdef int vain               # how often a taker has read the link since a message came
    cdef uint64_t link          # the number of the link that it ends with; 0: with none
    cdef readonly object error  # why it ended, None for an ordinary end

    cdef int _fill(self, double deadline, size_t least=*, double patience=*, double since=*,
                   bint gather=*) except -1
    cdef bint gather(self, size_t least, double deadline) except -1
    cdef bint _follow(self, double deadline, bint gather) except -1
    cdef bint _sleep(self, double deadline, double patience, double since, bint soon) except -1
    cdef link_result _sleep_without_gil(self, double deadline, double patience,
                                        double since) except *
    cdef double _due(self, double deadline, double patience, double since) noexcept nogil
    cdef int collect(self, MsgBatch batch, size_t limit, double deadline, size_t least,
                     double patience, double since, list statuses) except -1
    cdef int _move(self, MsgBatch batch, size_t limit, list statuses) except -1
    cdef Msg take(self, double deadline)
    cdef Msg _build(self, jet_record *r)
    cdef void _take(self, const jet_record *r) noexcept nogil


# The reader keeps the mutex of a queue while it copies up to a whole receive buffer: no thread waits
# for that with the GIL held. What is called often tries first; what is seldom gives the GIL up at once.

cdef inline link_counts counts_of(link_queue *q) noexcept:
    """The counts of a queue at this moment."""
    cdef link_counts now
    if not link_queue_counts(q, False, &now):
        with nogil:
            link_queue_counts(q, True, &now)
    return now
