from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from jetsync._core.arrow_rows cimport ArrowRows
from jetsync._core.csrc cimport jet_buf, jet_puback, jet_puback_form, jet_span
from jetsync._core.mailbox cimport Mailbox
from jetsync._core.outbound cimport Outbound
from jetsync._core.sync cimport Lock


# What is known about a message, in bits.
cdef enum:
    FREE = 0
    OPEN = 1          # not settled
    HAS_ID = 2        # a copy inside the duplicate window is dropped by the stream
    REFUSED = 4       # certainly not stored since it was sent last (or never sent)
    UNKNOWN = 8       # a copy sent earlier may be stored
    SENDING = 16      # being handed over at this moment
    LOST = 32         # the answer to the copy sent last may never come
    # A chunk is handed to the outbound buffer when it holds this many bytes.
    CHUNK_BYTES = 128 * 1024
    CHUNK_MEMORY = 2 * CHUNK_BYTES

# One chunk of encoded frames, kept until every message in it is settled.
cdef struct Chunk:
    jet_buf frames
    uint32_t open_
    double sent        # monotonic, when it was sent first

cdef struct Entry:
    uint32_t chunk     # position in the ring of chunks
    uint32_t offset    # of its frame within the chunk
    uint32_t length
    uint32_t header    # bytes of the header block
    uint32_t size      # header and payload, what max_payload is about
    uint8_t state


cdef class PublishWindow:
    cdef Lock guard              # everything below
    cdef Outbound outbound
    cdef Mailbox mailbox
    cdef bytes reply_prefix
    cdef uint8_t *reply           # the prefix and the number of the next message
    cdef size_t reply_len, digits # of both, and of the number
    cdef bytes fixed              # the header block that every message has; empty: none
    cdef bint fixed_has_id
    cdef uint8_t *auto_           # the same up to an automatic id's number, and room for it
    cdef size_t auto_id, auto_len # where the id's line begins, and the number; 0: no such ids
    cdef Entry *entries
    cdef Chunk *chunks
    cdef uint32_t ring            # messages from the oldest unsettled one to the newest, at most
    cdef uint32_t size            # of both arrays, a power of two
    cdef uint64_t mask
    cdef uint32_t capacity
    cdef size_t capacity_bytes
    cdef bint only_linked
    cdef uint64_t head            # the oldest message that is not settled
    cdef uint64_t next_           # the number of the next message
    # Chunks before chunk_head are settled; the memory of those from chunk_spare on is used again.
    cdef uint64_t chunk_spare, chunk_head, chunk_next
    cdef uint32_t open_
    cdef size_t open_bytes
    cdef jet_buf scratch          # a header block that has to be put together
    cdef jet_span header          # the block of the next message, wherever it is
    cdef bint header_has_id
    cdef jet_puback_form form     # how the confirmations look
    cdef bint held                # something was not handed over
    cdef readonly uint64_t stored
    cdef readonly uint64_t duplicates
    cdef readonly uint64_t first_seq
    cdef readonly uint64_t last_seq

    cdef int _begin(self) except -1
    cdef void _numbered_header(self) noexcept
    cdef int _header(self, bytes block, jet_span msg_id, bint auto_id, ArrowRows rows,
                     int64_t headers, int64_t row) except -1
    cdef int _add(self, jet_span subject, jet_span payload) except -1
    cdef bint _room(self, size_t size) noexcept
    cdef int _hand_over(self, uint64_t first, jet_span frames, uint64_t count, bint wake=*) except -1
    cdef int _flush(self) except -1
    cdef void _mark_refused(self, uint64_t first) noexcept
    cdef uint64_t _send_again(self, uint64_t first, jet_buf *frames, uint64_t count) except? 0
    cdef Entry *_open_entry(self, uint64_t number) noexcept
    cdef jet_span _subject(self, Entry *entry) noexcept
    cdef jet_span _frame(self, Entry *entry) noexcept
    cdef void _advance(self) noexcept
    cdef bint _settle(self, uint64_t number) noexcept
    cdef int _confirmed(self, uint64_t number, jet_puback *ack, jet_span payload) except -1
    cdef void _count(self, uint64_t seq, bint duplicate) noexcept
