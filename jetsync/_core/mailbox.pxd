from libc.stddef cimport size_t
from libc.stdint cimport uint64_t

from jetsync._core.batch cimport MsgBatch
from jetsync._core.csrc cimport jet_chain, jet_record
from jetsync._core.message cimport Maker, Msg
from jetsync._core.outbound cimport Outbound
from jetsync._core.seat cimport Seat
from jetsync._core.sync cimport Gate, Leaf, Lock


# What the reader thread touches. Everything but `held` is guarded by `lock`.
cdef struct Box:
    Leaf lock
    Gate gate
    jet_chain chain
    size_t held_count     # taken by the consumer, not yet used (atomic: written without the lock)
    size_t held_bytes
    size_t limit_count    # 0: no limit
    size_t limit_bytes
    uint64_t sid
    uint64_t received     # put in, or dropped
    uint64_t dropped
    uint64_t max_messages # 0: no limit; after that many the box is finished
    double last_put       # monotonic
    bint slow             # inside an episode of dropping
    bint finished         # nothing more will come
    bint poked            # a waiter shall return although nothing came
    size_t least          # what its waiter waits for, unless a status comes
    bint touched          # in the reader's list of boxes to wake
    Box *next_touched


# What putting a message in brings about.
cdef enum Put:
    PUT_NOTHING
    PUT_SLOW        # dropping begins
    PUT_LAST        # it was the last one: the box is finished

cdef Put box_put(Box *box, const jet_record *r, double now) noexcept nogil
cdef bint box_has_enough(const Box *box) noexcept nogil


# What a box says of itself, all of one moment.
cdef struct Counts:
    size_t pending
    size_t pending_bytes
    uint64_t received
    uint64_t dropped
    uint64_t max_messages
    double last_put
    bint finished


cdef class Mailbox:
    cdef Box box
    cdef jet_chain in_hand      # owned by whoever holds `take_lock`
    cdef double in_hand_since   # when the last message in there was received
    cdef Lock take_lock
    cdef Maker maker
    cdef Seat seat              # of the link that fills this; None: it has none
    cdef readonly object error  # why it ended, None for an ordinary end
    cdef uint64_t used          # messages handed to the user (atomic)

    cdef int _fill(self, double deadline, size_t least=*) except -1
    cdef int _read(self, double deadline) except -1
    cdef bint _has_enough(self) noexcept nogil
    cdef int _move(self, MsgBatch batch, size_t limit, list statuses) except -1
    cdef Msg _pop(self)
    cdef Counts _look(self) noexcept nogil
    cdef void _publish_held(self) noexcept nogil
