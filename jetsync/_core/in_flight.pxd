from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from jetsync._core.csrc cimport jet_buf, jet_span, jet_status
from jetsync._core.link cimport link_share
from jetsync._core.mailbox cimport Mailbox
from jetsync._core.numbering cimport Numbering
from jetsync._core.outbound cimport Outbound


# The state of a message, in bits.
cdef enum:
    FREE = 0
    OPEN = 1          # not settled
    HAS_ID = 2        # a copy inside the duplicate window is dropped by the stream
    REFUSED = 4       # certainly not stored since it was sent last (or never sent)
    UNKNOWN = 8       # a copy sent earlier may be stored
    PLAIN = 16        # has no confirmation: it only keeps its place in the order
    LOST = 32         # the answer to the copy sent last may never come
    # A chunk is handed to the outbound buffer when it holds this many bytes.
    CHUNK_BYTES = 128 * 1024
    CHUNK_MEMORY = 2 * CHUNK_BYTES

    MANY_OWNERS = 8

# One chunk of encoded frames, kept until every message in it is settled.
cdef struct Chunk:
    jet_buf frames
    link_share *share  # of their memory, when one of them was lent to the sender; no more are added
    uint32_t open_
    double sent        # monotonic, when the first of its messages was handed over; 0: none was

cdef struct Entry:
    uint32_t chunk     # position in the ring of chunks
    uint32_t offset    # of its frame within the chunk
    uint32_t length
    uint32_t header    # bytes of the header block
    uint32_t size      # header and payload, what max_payload is about
    uint8_t state
    uint64_t ticket     # among the messages of all windows of the connection


cdef class InFlight:
    cdef Outbound outbound
    cdef Mailbox mailbox
    cdef bytes reply_prefix
    cdef Numbering numbering
    cdef Entry *entries
    cdef Chunk *chunks
    cdef uint32_t ring            # messages from the oldest unsettled one to the newest, at most
    cdef uint32_t size            # of both arrays, a power of two
    cdef uint64_t mask
    cdef uint32_t capacity        # messages that may be open now, between the next two
    cdef uint32_t base, most
    cdef size_t capacity_bytes
    cdef bint only_linked
    cdef uint64_t head            # the oldest message that is not settled
    cdef uint64_t unsent          # messages from here on were not handed over yet
    cdef uint64_t next_           # the number of the next message
    cdef uint64_t link            # the link on which messages are handed over
    cdef bint resending           # unsent messages wait until others were sent again
    cdef bint lost                # the others: a link, or its answers, were lost
    cdef bint refused             # there may be messages that are REFUSED
    cdef bint repeating           # the others may be sent now
    cdef double max_age           # seconds: one that was sent first longer ago may not
    cdef double oldest_sent       # the same as a point in time
    cdef uint64_t repeated        # those before this number were sent again since the loss
    cdef uint64_t handed          # messages handed over so far, copies counted too
    cdef public bint ended        # its keeper has ended: nothing is settled any more
    # The threads that added messages since it was empty; more than MANY_OWNERS: too many to tell.
    cdef uint64_t owners[MANY_OWNERS]
    cdef int owner_count
    # One message at a time is watched from hand-over to confirmation, to know what the link holds.
    cdef bint sampling
    cdef uint64_t sample, sampled_stored
    cdef double sampled_at, trip  # monotonic; seconds of the shortest round trip, 0: not known
    # Chunks before chunk_head are settled; the memory of those from chunk_spare on is used again.
    cdef uint64_t chunk_spare, chunk_head, chunk_next
    cdef uint32_t open_
    cdef size_t open_bytes
    cdef readonly uint64_t stored
    cdef readonly uint64_t duplicates
    cdef readonly uint64_t first_seq
    cdef readonly uint64_t last_seq

    cdef jet_status _begin(self) noexcept
    cdef jet_status _add(self, jet_span subject, jet_span payload) noexcept
    cdef jet_status _append(self, jet_span subject, jet_span reply, jet_span header,
                            jet_span payload, uint8_t state) noexcept
    cdef int _raise_too_large(self, size_t size) except -1
    cdef bint _in_step(self, uint64_t before) noexcept
    cdef bint _repeat(self, uint64_t before) noexcept
    cdef void _on_link(self) noexcept
    cdef void _own(self) noexcept
    cdef bint _owned(self) noexcept
    cdef bint _shares_thread(self, InFlight other) noexcept
    cdef uint64_t _first_waiting(self, bint with_refused) noexcept
    cdef uint64_t _first_ahead(self, int *whose) noexcept
    cdef bint _hand_over(self, uint64_t before, bint wake) noexcept
    cdef bint _flush(self, bint wake=*) noexcept
    cdef bint _offer(self, Chunk *chunk, jet_span frames, uint64_t count, bint wake) noexcept
    cdef void _drop(self, Entry *entry) noexcept
    cdef void _end_chunk(self, Chunk *chunk) noexcept
    cdef void _sent_first(self, Chunk *chunk, uint64_t number) noexcept
    cdef void _measure(self) noexcept
    cdef void _advance(self) noexcept
    cdef Entry *_open_entry(self, uint64_t number) noexcept
    cdef bint _settle(self, uint64_t number) noexcept
    cdef void _count(self, uint64_t seq, bint duplicate) noexcept
