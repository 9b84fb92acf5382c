"""BulkWindow: many publishes in flight with no Python object per message or acknowledgement.

Messages get numbers 0, 1, 2 ... in the order they are added. A message's reply subject ends in its
number, so an acknowledgement is matched by arithmetic. Encoded frames are kept until they are
acknowledged: sending again is a copy.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp

from jetsync._core.arrow_rows cimport ArrowRows, Column, column_get, column_is_null
from jetsync._core.csrc cimport (
    JET_OK, bytes_of, jet_buf, jet_buf_append, jet_buf_clear, jet_buf_commit, jet_buf_free,
    jet_buf_init, jet_buf_len, jet_buf_ptr, jet_buf_reserve, jet_chain_take, jet_encode_pub,
    jet_encode_u64, jet_header_append, jet_header_find, jet_puback, jet_puback_parse, jet_record,
    jet_scan_leading_u64, jet_span, span_of, span_of_bytes,
)
from jetsync._core.mailbox cimport Mailbox
from jetsync._core.outbound cimport Outbound, raise_status, text_bytes
from jetsync._core.sync cimport acquire, deadline_of, monotonic, unlock

from jetsync._core.outbound import encode_headers
from jetsync.errors import ConfigError, MaxPayloadError


cdef enum:
    FREE = 0
    OPEN = 1
    # A chunk is handed to the outbound buffer when it holds this many bytes.
    CHUNK_BYTES = 128 * 1024
    CHUNK_ROWS = 512
    MAX_CAPACITY = 1 << 24

# One chunk of encoded frames, kept until every message in it is settled.
cdef struct Chunk:
    jet_buf frames
    uint32_t open_
    double sent        # monotonic, when it was sent first

cdef struct Entry:
    uint32_t chunk     # position in the ring of chunks
    uint32_t offset    # of its frame within the chunk
    uint32_t length
    uint8_t state

cdef bytes VERSION_LINE = b"NATS/1.0\r\n"
cdef bytes ID_NAME = b"Nats-Msg-Id"


cdef class BulkWindow:
    """A bounded window of unacknowledged publishes. For one thread at a time.

    `reply_prefix` is the reply subject up to the message number; `id_prefix` (or None) makes the
    automatic message id together with the number; `fixed` are header lines for every message.
    """
    cdef Outbound outbound
    cdef Mailbox mailbox
    cdef bytes reply_prefix
    cdef uint8_t *reply           # the prefix and room for a number
    cdef bytes id_prefix
    cdef bytes fixed
    cdef Entry *entries
    cdef Chunk *chunks
    cdef uint32_t size            # of both rings
    cdef uint32_t capacity
    cdef size_t capacity_bytes
    cdef uint64_t head            # the oldest message that is not settled
    cdef uint64_t next_           # the number of the next message
    cdef uint64_t chunk_head, chunk_next
    cdef size_t open_bytes
    cdef jet_buf header           # scratch
    cdef readonly uint64_t stored
    cdef readonly uint64_t duplicates
    cdef readonly uint64_t first_seq
    cdef readonly uint64_t last_seq
    cdef readonly list rejected   # (number, error) of messages that were never sent

    def __cinit__(self, Outbound outbound not None, Mailbox mailbox not None,
                  bytes reply_prefix not None, bytes id_prefix, bytes fixed not None,
                  uint32_t capacity, size_t capacity_bytes=32 << 20):
        self.outbound = outbound
        self.mailbox = mailbox
        self.reply_prefix = reply_prefix
        self.id_prefix = id_prefix
        self.fixed = fixed
        self.capacity = min(max(capacity, 1), MAX_CAPACITY)
        self.capacity_bytes = capacity_bytes
        self.size = self.capacity + 1
        self.rejected = []
        jet_buf_init(&self.header)
        self.entries = <Entry *>calloc(self.size, sizeof(Entry))
        self.chunks = <Chunk *>calloc(self.size, sizeof(Chunk))
        self.reply = <uint8_t *>malloc(len(reply_prefix) + 20)
        if self.entries == NULL or self.chunks == NULL or self.reply == NULL:
            raise MemoryError("no memory for a publish window")
        put(self.reply, reply_prefix)

    def __dealloc__(self):
        cdef uint32_t i
        if self.chunks != NULL:
            for i in range(self.size):
                jet_buf_free(&self.chunks[i].frames)
        free(self.chunks)
        free(self.entries)
        free(self.reply)
        jet_buf_free(&self.header)

    @property
    def in_flight(self):
        """Messages from the oldest unsettled one to the newest."""
        return self.next_ - self.head

    @property
    def added(self):
        """Messages added so far; the number of the next one."""
        return self.next_

    @property
    def full(self):
        """Whether the window takes no more messages now."""
        return (self.next_ - self.head >= self.capacity
                or self.open_bytes >= self.capacity_bytes)

    # -- adding ----------------------------------------------------------------------------------

    cdef int _begin(self) except -1:
        cdef Chunk *chunk = &self.chunks[self.chunk_next % self.size]
        jet_buf_clear(&chunk.frames, CHUNK_BYTES * 2)
        chunk.open_ = 0
        return 0

    cdef int _header(self, bytes block, jet_span msg_id, ArrowRows rows, int64_t headers,
                     int64_t row) except -1:
        """Build the header block of the next message in the scratch buffer; empty when it has none.

        `block` is a finished block of the user's, or lines come from an Arrow column (>= 0)."""
        cdef uint8_t *to
        cdef size_t n
        cdef jet_span found
        cdef jet_span name = span_of_bytes(ID_NAME)
        cdef jet_span none = span_of(NULL, 0)
        jet_buf_clear(&self.header, 1 << 16)
        raise_status(jet_buf_append(&self.header, <const char *>VERSION_LINE, len(VERSION_LINE)), none)
        raise_status(jet_buf_append(&self.header, <const char *>self.fixed, len(self.fixed)), none)
        if block:
            raise_status(jet_buf_append(&self.header, <const char *>block + len(VERSION_LINE),
                                        len(block) - len(VERSION_LINE) - 2), none)
        elif headers >= 0:
            rows.append_headers(headers, row, &self.header)
        if not (jet_buf_len(&self.header) > <size_t>len(VERSION_LINE) and jet_header_find(
                span_of(jet_buf_ptr(&self.header), jet_buf_len(&self.header)), name, &found)):
            if msg_id.len:
                raise_status(jet_header_append(&self.header, name, msg_id), msg_id)
            elif self.id_prefix is not None:
                n = len(ID_NAME) + 2 + len(self.id_prefix) + 20 + 2
                to = jet_buf_reserve(&self.header, n)
                if to == NULL:
                    raise MemoryError("no memory for headers")
                n = put(to, ID_NAME)
                to[n] = c':'
                to[n + 1] = c' '
                n += 2
                n += put(to + n, self.id_prefix)
                n += jet_encode_u64(to + n, self.next_)
                to[n] = c'\r'
                to[n + 1] = c'\n'
                jet_buf_commit(&self.header, n + 2)
        if jet_buf_len(&self.header) == <size_t>len(VERSION_LINE):
            jet_buf_clear(&self.header, 1 << 16)
            return 0
        raise_status(jet_buf_append(&self.header, b"\r\n", 2), none)
        return 0

    cdef int _add(self, jet_span subject, jet_span payload) except -1:
        """Encode the next message, whose header is in the scratch buffer, into the open chunk."""
        cdef Chunk *chunk = &self.chunks[self.chunk_next % self.size]
        cdef Entry *entry = &self.entries[self.next_ % self.size]
        cdef size_t before = jet_buf_len(&chunk.frames)
        cdef size_t size = jet_buf_len(&self.header) + payload.len
        cdef size_t n = len(self.reply_prefix)
        if size > self.outbound.max_payload:
            raise MaxPayloadError(
                f"message of {size} bytes (headers and payload) is over the server's limit of "
                f"{self.outbound.max_payload}"
            )
        n += jet_encode_u64(self.reply + n, self.next_)
        raise_status(jet_encode_pub(&chunk.frames, subject, span_of(self.reply, n),
                                    span_of(jet_buf_ptr(&self.header), jet_buf_len(&self.header)),
                                    payload), subject)
        entry.chunk = self.chunk_next % self.size
        entry.offset = <uint32_t>before
        entry.length = <uint32_t>(jet_buf_len(&chunk.frames) - before)
        entry.state = OPEN
        chunk.open_ += 1
        self.open_bytes += entry.length
        self.next_ += 1
        return 0

    cdef int _reject(self, object error) except -1:
        """Give the next number to a message that cannot be sent."""
        self.entries[self.next_ % self.size].state = FREE
        self.rejected.append((self.next_, error))
        self.next_ += 1
        return 0

    cdef bint _chunk_full(self) noexcept:
        cdef Chunk *chunk = &self.chunks[self.chunk_next % self.size]
        return (chunk.open_ >= CHUNK_ROWS or jet_buf_len(&chunk.frames) >= CHUNK_BYTES
                or self.next_ - self.head >= self.capacity
                or self.open_bytes >= self.capacity_bytes)

    cdef int _send(self) except -1:
        """Hand the open chunk to the outbound buffer."""
        cdef Chunk *chunk = &self.chunks[self.chunk_next % self.size]
        self._advance()
        if chunk.open_ == 0:
            return 0
        chunk.sent = monotonic()
        # From here on the chunk counts as sent: if the buffer refuses it, resend() tries again.
        self.chunk_next += 1
        self.outbound.append_frames(span_of(jet_buf_ptr(&chunk.frames), jet_buf_len(&chunk.frames)),
                                    chunk.open_)
        return 0

    def add_rows(self, list rows not None, size_t start):
        """Add and send `(subject, data[, headers])` tuples from `start` on, one chunk at most.

        Returns how many were taken. A message that cannot be encoded goes to `rejected`."""
        cdef Py_buffer view
        cdef size_t i = start
        cdef bytes subject, block
        self._begin()
        try:
            while i < <size_t>len(rows) and not self._chunk_full():
                row = rows[i]
                i += 1
                try:
                    if not isinstance(row, (tuple, list)) or not 2 <= len(row) <= 3:
                        raise ConfigError("a message is (subject, data) or (subject, data, headers)")
                    subject = text_bytes(row[0], "subject")
                    block = encode_headers(row[2]) if len(row) == 3 else b""
                    if isinstance(row[1], str):
                        raise ConfigError("data must be bytes; encode text first")
                    try:
                        PyObject_GetBuffer(row[1], &view, PyBUF_SIMPLE)
                    except (TypeError, BufferError):
                        raise ConfigError(
                            f"data must be bytes-like, not {type(row[1]).__name__}") from None
                    try:
                        self._header(block, span_of(NULL, 0), None, -1, 0)
                        self._add(span_of_bytes(subject), span_of(view.buf, view.len))
                    finally:
                        PyBuffer_Release(&view)
                except (ConfigError, MaxPayloadError) as error:
                    self._reject(error)
        finally:
            # Also after an unexpected error: what was added has its number and must go out.
            self._send()
        return i - start

    def add_arrow(self, ArrowRows rows not None, str subject_column, bytes subject, str data_column,
                  str headers_column, str id_column, int64_t start):
        """Add and send rows of a record batch from `start` on, one chunk at most.

        The subject is a column or, without one, constant. Returns how many rows were taken."""
        cdef Column subjects, data, ids
        cdef int64_t row = start
        cdef int64_t headers = -1
        cdef bint has_subjects = subject_column is not None, has_ids = id_column is not None
        cdef jet_span subject_span = span_of_bytes(subject), id_span
        rows.text_column(data_column, &data)
        if has_subjects:
            rows.text_column(subject_column, &subjects)
        if has_ids:
            rows.text_column(id_column, &ids)
        if headers_column is not None:
            headers = rows.check_headers(headers_column)
        self._begin()
        try:
            while row < rows.length and not self._chunk_full():
                try:
                    if has_subjects:
                        subject_span = column_get(&subjects, row)
                    id_span = column_get(&ids, row) if has_ids else span_of(NULL, 0)
                    if has_ids and id_span.len == 0:
                        raise ConfigError(f"column {id_column!r} holds no message id in row {row}")
                    self._header(b"", id_span, rows, headers, row)
                    self._add(subject_span, column_get(&data, row))
                except (ConfigError, MaxPayloadError) as error:
                    self._reject(error)
                row += 1
        finally:
            self._send()
        return row - start

    # -- settling --------------------------------------------------------------------------------

    cdef void _advance(self) noexcept:
        """Move past settled messages and give back the memory of settled chunks."""
        while self.head < self.next_ and self.entries[self.head % self.size].state != OPEN:
            self.head += 1
        while (self.chunk_head < self.chunk_next
               and self.chunks[self.chunk_head % self.size].open_ == 0):
            jet_buf_free(&self.chunks[self.chunk_head % self.size].frames)
            self.chunk_head += 1

    cdef bint _settle(self, uint64_t number) noexcept:
        cdef Entry *entry
        if number < self.head or number >= self.next_:
            return False
        entry = &self.entries[number % self.size]
        if entry.state != OPEN:
            return False
        entry.state = FREE
        self.open_bytes -= entry.length
        self.chunks[entry.chunk].open_ -= 1
        return True

    def settle(self, uint64_t number):
        """Stop waiting for a message; returns False when nobody waits for it any more."""
        cdef bint was_open = self._settle(number)
        self._advance()
        return was_open

    def confirm(self, uint64_t number, uint64_t seq, bint duplicate):
        """Settle a message as stored; for confirmations that `collect` could not read itself."""
        if self._settle(number):
            self._count(seq, duplicate)
            self._advance()

    cdef void _count(self, uint64_t seq, bint duplicate) noexcept:
        self.stored += 1
        self.duplicates += duplicate
        if self.first_seq == 0 or seq < self.first_seq:
            self.first_seq = seq
        if seq > self.last_seq:
            self.last_seq = seq

    def collect(self, timeout):
        """Take the acknowledgements that are there; wait up to `timeout` seconds for the first.

        Returns what needs a closer look: a list of (number, status, payload)."""
        cdef double deadline = 0 if timeout <= 0 else deadline_of(timeout)
        cdef jet_record r
        cdef jet_puback ack
        cdef uint64_t number = 0
        cdef size_t prefix = len(self.reply_prefix), digits
        cdef list odd = []
        cdef Mailbox box = self.mailbox
        if not acquire(box.take_lock, deadline):
            return odd
        try:
            if not box._fill(deadline):
                return odd
            while jet_chain_take(&box.in_hand, &r):
                if r.subject.len <= prefix or memcmp(
                        r.subject.ptr, <const char *>self.reply_prefix, prefix):
                    continue
                digits = jet_scan_leading_u64(
                    span_of(r.subject.ptr + prefix, r.subject.len - prefix), &number)
                if digits != r.subject.len - prefix:
                    continue
                if r.status == 0 and jet_puback_parse(r.payload, &ack):
                    if self._settle(number):
                        self._count(ack.seq, ack.duplicate)
                else:
                    odd.append((number, r.status, bytes_of(r.payload)))
        finally:
            box._publish_held()
            unlock(box.take_lock)
        self._advance()
        return odd

    def open_numbers(self):
        """The numbers of the messages that are not settled."""
        cdef uint64_t n
        return [n for n in range(self.head, self.next_)
                if self.entries[n % self.size].state == OPEN]

    def resend(self, double max_age):
        """Send every unsettled message again whose first sending is at most `max_age` seconds ago.

        Returns how many were sent. For messages with an id only: the stream drops the copies."""
        cdef uint64_t n
        cdef Entry *entry
        cdef Chunk *chunk
        cdef jet_buf frames
        cdef uint64_t count = 0, total = 0
        cdef double oldest = monotonic() - max_age
        jet_buf_init(&frames)
        try:
            for n in range(self.head, self.next_):
                entry = &self.entries[n % self.size]
                chunk = &self.chunks[entry.chunk]
                if entry.state != OPEN or chunk.sent < oldest:
                    continue
                if jet_buf_append(&frames, jet_buf_ptr(&chunk.frames) + entry.offset,
                                  entry.length) != JET_OK:
                    raise MemoryError("no memory to send again")
                count += 1
                if jet_buf_len(&frames) >= CHUNK_BYTES:
                    self.outbound.append_frames(
                        span_of(jet_buf_ptr(&frames), jet_buf_len(&frames)), count)
                    jet_buf_clear(&frames, CHUNK_BYTES * 2)
                    total += count
                    count = 0
            if count:
                self.outbound.append_frames(
                    span_of(jet_buf_ptr(&frames), jet_buf_len(&frames)), count)
            return total + count
        finally:
            jet_buf_free(&frames)


cdef inline size_t put(uint8_t *to, bytes what) noexcept:
    cdef size_t n = len(what), i
    cdef const char *from_ = what
    for i in range(n):
        to[i] = <uint8_t>from_[i]
    return n
