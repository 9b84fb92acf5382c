"""PublishWindow: many publishes in flight, their acknowledgements matched by arithmetic.

Messages get numbers 0, 1, 2 ... in the order they are added. A message's reply subject ends in its
number, so an acknowledgement is matched by arithmetic. Encoded frames are kept until they are
acknowledged: sending again is a copy. For each message the window knows whether a copy that was
sent may be stored; what to do about it is decided above (jetstream/publish/window_keeper.py).
"""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy

from jetsync._core.arrow_rows cimport ArrowRows
from jetsync._core.csrc cimport (
    JET_OK, bytes_of, jet_buf, jet_buf_append, jet_buf_clear, jet_buf_free, jet_buf_init,
    jet_buf_len, jet_buf_ptr, jet_buf_reserve, jet_chain_take, jet_encode_pub, jet_encode_u64,
    jet_header_append, jet_header_find, jet_puback, jet_puback_next, jet_record,
    jet_scan_leading_u64, jet_span, span_of, span_of_bytes,
)
from jetsync._core.mailbox cimport Mailbox
from jetsync._core.encoding cimport raise_status
from jetsync._core.outbound cimport Outbound, has_room
from jetsync._core.sync cimport (
    acquire, deadline_of, free_lock, lock_leaf, monotonic, new_lock, unlock, unlock_leaf,
)

from jetsync.errors import MaxPayloadError


cdef enum:
    MAX_CAPACITY = 1 << 24

cdef bytes VERSION_LINE = b"NATS/1.0\r\n"
cdef bytes ID_NAME = b"Nats-Msg-Id"


cdef class PublishWindow:
    """A bounded window of unacknowledged publishes. One thread adds, any may do the rest.

    `reply_prefix` is the reply subject up to the message number; `id_prefix` (or None) makes the
    automatic message id together with the number; `fixed` are header lines for every message.
    With `only_linked` nothing is left to the reconnect buffer and nobody waits for room: what
    cannot be handed over now counts as refused and goes out with a later `resend`.
    """

    def __cinit__(self, Outbound outbound not None, Mailbox mailbox not None,
                  bytes reply_prefix not None, bytes id_prefix, bytes fixed not None,
                  uint32_t capacity, size_t capacity_bytes=16 << 20, bint only_linked=False,
                  uint32_t ring=0):
        cdef jet_span found
        cdef bytes numbered
        self.guard = new_lock()
        self.outbound = outbound
        self.mailbox = mailbox
        self.reply_prefix = reply_prefix
        self.fixed = VERSION_LINE + fixed + b"\r\n" if fixed else b""
        self.fixed_has_id = jet_header_find(span_of_bytes(self.fixed), span_of_bytes(ID_NAME), &found)
        self.capacity = min(max(capacity, 1), MAX_CAPACITY)
        self.capacity_bytes = capacity_bytes
        self.only_linked = only_linked
        self.ring = min(max(ring, self.capacity), <uint32_t>MAX_CAPACITY)
        self.size = 2
        while self.size <= self.ring:
            self.size *= 2
        self.mask = self.size - 1
        jet_buf_init(&self.scratch)
        self.entries = <Entry *>calloc(self.size, sizeof(Entry))
        self.chunks = <Chunk *>calloc(self.size, sizeof(Chunk))
        self.reply = <uint8_t *>malloc(len(reply_prefix) + 20)
        if id_prefix is not None and not self.fixed_has_id:
            numbered = VERSION_LINE + fixed + ID_NAME + b": " + id_prefix
            self.auto_id = len(VERSION_LINE) + len(fixed)
            self.auto_len = len(numbered)
            self.auto_ = <uint8_t *>malloc(self.auto_len + 20 + 4)
        if (self.entries == NULL or self.chunks == NULL or self.reply == NULL
                or (self.auto_len and self.auto_ == NULL)):
            raise MemoryError("no memory for a publish window")
        memcpy(self.reply, <const char *>reply_prefix, len(reply_prefix))
        if self.auto_len:
            memcpy(self.auto_, <const char *>numbered, self.auto_len)

    def __dealloc__(self):
        cdef uint32_t i
        if self.chunks != NULL:
            for i in range(self.size):
                jet_buf_free(&self.chunks[i].frames)
        free(self.chunks)
        free(self.entries)
        free(self.reply)
        free(self.auto_)
        jet_buf_free(&self.scratch)
        free_lock(self.guard)

    @property
    def in_flight(self):
        """Messages from the oldest unsettled one to the newest."""
        return self.next_ - self.head

    @property
    def open_count(self):
        """Messages that are not settled."""
        return self.open_

    @property
    def oldest(self):
        """The number of the oldest message that is not settled; `added` when all are."""
        return self.head

    @property
    def added(self):
        """Messages added so far; the number of the next one."""
        return self.next_

    @property
    def full(self):
        """Whether the window takes no more messages now."""
        return (self.next_ - self.head >= self.capacity
                or self.open_bytes >= self.capacity_bytes
                or (self.only_linked and not self._room(CHUNK_MEMORY)))

    # -- adding ----------------------------------------------------------------------------------

    cdef int _begin(self) except -1:
        """Begin a chunk, in the memory of a settled one if there is any."""
        cdef Chunk *chunk = &self.chunks[self.chunk_next & self.mask]
        cdef jet_buf *spare = &self.chunks[self.chunk_spare & self.mask].frames
        if self.chunk_spare < self.chunk_head:
            jet_buf_free(&chunk.frames)  # it has some if nothing of the chunk before could be sent
            chunk.frames = spare[0]
            jet_buf_init(spare)
            self.chunk_spare += 1
        chunk.open_ = 0
        if jet_buf_reserve(&chunk.frames, CHUNK_MEMORY) == NULL:
            raise MemoryError("no memory for a publish window")
        return 0

    def trim(self):
        """Give back the memory that is kept for messages to come."""
        acquire(self.guard, -1)
        while self.chunk_spare < self.chunk_head:
            jet_buf_free(&self.chunks[self.chunk_spare & self.mask].frames)
            self.chunk_spare += 1
        unlock(self.guard)

    cdef int _header(self, bytes block, jet_span msg_id, bint auto_id, ArrowRows rows,
                     int64_t headers, int64_t row) except -1:
        """Let `header` be the header block of the next message; empty when it has none.

        `block` is a finished block of the user's, or lines come from an Arrow column (>= 0)."""
        cdef jet_span found
        cdef jet_span name = span_of_bytes(ID_NAME)
        cdef jet_span none = span_of(NULL, 0)
        cdef size_t prefix = len(self.reply_prefix), lines = 0
        self.digits = jet_encode_u64(self.reply + prefix, self.next_)
        self.reply_len = prefix + self.digits
        auto_id = auto_id and self.auto_len != 0
        if headers < 0 and not block and not msg_id.len:
            if auto_id:
                self._numbered_header()
            else:
                self.header = span_of_bytes(self.fixed)
                self.header_has_id = self.fixed_has_id
            return 0
        jet_buf_clear(&self.scratch, 1 << 16)
        if self.fixed:
            lines = len(self.fixed) - 2
            raise_status(jet_buf_append(&self.scratch, <const char *>self.fixed, lines), none)
        else:
            lines = len(VERSION_LINE)
            raise_status(jet_buf_append(&self.scratch, <const char *>VERSION_LINE, lines), none)
        if block:
            raise_status(jet_buf_append(&self.scratch, <const char *>block + len(VERSION_LINE),
                                        len(block) - len(VERSION_LINE) - 2), none)
        elif headers >= 0:
            rows.append_headers(headers, row, &self.scratch)
        self.header_has_id = self.fixed_has_id or (
            jet_buf_len(&self.scratch) > lines
            and jet_header_find(span_of(jet_buf_ptr(&self.scratch), jet_buf_len(&self.scratch)), name,
                                &found))
        if not self.header_has_id and msg_id.len:
            raise_status(jet_header_append(&self.scratch, name, msg_id), msg_id)
            self.header_has_id = True
        elif not self.header_has_id and auto_id:
            self._numbered_header()
            raise_status(jet_buf_append(&self.scratch, self.auto_ + self.auto_id,
                                        self.header.len - self.auto_id - 2), none)
        if jet_buf_len(&self.scratch) == <size_t>len(VERSION_LINE):
            self.header = none
            return 0
        raise_status(jet_buf_append(&self.scratch, b"\r\n", 2), none)
        self.header = span_of(jet_buf_ptr(&self.scratch), jet_buf_len(&self.scratch))
        return 0

    cdef void _numbered_header(self) noexcept:
        """Let `header` be the block that has an automatic id and nothing of the message's own."""
        cdef uint8_t *to = self.auto_ + self.auto_len
        memcpy(to, self.reply + self.reply_len - self.digits, self.digits)
        memcpy(to + self.digits, b"\r\n\r\n", 4)
        self.header = span_of(self.auto_, self.auto_len + self.digits + 4)
        self.header_has_id = True

    cdef int _add(self, jet_span subject, jet_span payload) except -1:
        """Encode the next message, whose header `_header` has made, into the open chunk."""
        cdef Chunk *chunk = &self.chunks[self.chunk_next & self.mask]
        cdef Entry *entry = &self.entries[self.next_ & self.mask]
        cdef size_t before = jet_buf_len(&chunk.frames)
        cdef size_t size = self.header.len + payload.len
        if size > self.outbound.max_payload:
            raise MaxPayloadError(
                f"message of {size} bytes (headers and payload) is over the server's limit of "
                f"{self.outbound.max_payload}"
            )
        raise_status(jet_encode_pub(&chunk.frames, subject, span_of(self.reply, self.reply_len),
                                    self.header, payload), subject)
        entry.chunk = self.chunk_next & self.mask
        entry.offset = <uint32_t>before
        entry.length = <uint32_t>(jet_buf_len(&chunk.frames) - before)
        entry.header = <uint32_t>self.header.len
        entry.size = <uint32_t>size
        entry.state = OPEN | SENDING | (HAS_ID if self.header_has_id else 0)
        chunk.open_ += 1
        self.open_ += 1
        self.open_bytes += entry.length
        self.next_ += 1
        return 0

    cdef bint _room(self, size_t size) noexcept:
        """Whether the outbound buffer takes so many bytes at once, on a link."""
        cdef bint room
        lock_leaf(&self.outbound.lock)
        room = self.outbound.fd >= 0 and has_room(self.outbound, size)
        unlock_leaf(&self.outbound.lock)
        return room

    cdef int _hand_over(self, uint64_t first, jet_span frames, uint64_t count,
                        bint wake=True) except -1:
        """Give frames of messages from `first` on to the outbound buffer, or mark them refused.

        With `wake=False` the caller has to have them sent."""
        if not self.only_linked or self._room(frames.len):
            try:
                self.outbound.append_frames(frames, count, False, wake)
                return 1
            except BaseException:
                self._mark_refused(first)
                raise
        self._mark_refused(first)
        return 0

    cdef void _mark_refused(self, uint64_t first) noexcept:
        cdef uint64_t n
        for n in range(max(first, self.head), self.next_):
            if self.entries[n & self.mask].state & SENDING:
                self.entries[n & self.mask].state |= REFUSED
        self.held = True

    cdef int _flush(self) except -1:
        """Hand over what was added and not yet handed over."""
        return 0

    # -- settling --------------------------------------------------------------------------------

    cdef void _advance(self) noexcept:
        """Move past settled messages and chunks."""
        while self.head < self.next_ and not self.entries[self.head & self.mask].state:
            self.head += 1
        while (self.chunk_head < self.chunk_next
               and self.chunks[self.chunk_head & self.mask].open_ == 0):
            jet_buf_clear(&self.chunks[self.chunk_head & self.mask].frames, CHUNK_MEMORY)
            self.chunk_head += 1

    cdef Entry *_open_entry(self, uint64_t number) noexcept:
        """The entry of a message that is not settled, or NULL."""
        cdef Entry *entry
        if number < self.head or number >= self.next_:
            return NULL
        entry = &self.entries[number & self.mask]
        return entry if entry.state & OPEN else NULL

    cdef bint _settle(self, uint64_t number) noexcept:
        cdef Entry *entry = self._open_entry(number)
        if entry == NULL:
            return False
        entry.state = FREE
        self.open_ -= 1
        self.open_bytes -= entry.length
        self.chunks[entry.chunk].open_ -= 1
        return True

    def settle(self, uint64_t number):
        """Stop waiting for a message; returns False when nobody waits for it any more."""
        cdef bint was_open
        acquire(self.guard, -1)
        was_open = self._settle(number)
        self._advance()
        unlock(self.guard)
        return was_open

    cdef int _confirmed(self, uint64_t number, jet_puback *ack, jet_span payload) except -1:
        """A message was just settled as stored."""
        self._count(ack.seq, ack.duplicate)
        return 0

    def confirm(self, uint64_t number, uint64_t seq, bint duplicate):
        """Settle a message as stored; for confirmations that `collect` could not read itself."""
        acquire(self.guard, -1)
        if self._settle(number):
            self._count(seq, duplicate)
            self._advance()
        unlock(self.guard)

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
            acquire(self.guard, -1)
            try:
                while jet_chain_take(&box.in_hand, &r):
                    if r.subject.len <= prefix or memcmp(
                            r.subject.ptr, <const char *>self.reply_prefix, prefix):
                        continue
                    digits = jet_scan_leading_u64(
                        span_of(r.subject.ptr + prefix, r.subject.len - prefix), &number)
                    if digits != r.subject.len - prefix:
                        continue
                    if r.status == 0 and jet_puback_next(&self.form, r.payload, &ack):
                        if self._settle(number):
                            self._confirmed(number, &ack, r.payload)
                    else:
                        odd.append((number, r.status, bytes_of(r.payload)))
                self._advance()
            finally:
                unlock(self.guard)
        finally:
            box._publish_held()
            unlock(box.take_lock)
        return odd

    # -- what is known about the open ones, and sending them again -------------------------------

    def open_numbers(self):
        """The numbers of the messages that are not settled."""
        cdef uint64_t n
        return [n for n in range(self.head, self.next_) if self.entries[n & self.mask].state & OPEN]

    def oversized(self):
        """The numbers of open messages that are larger than the server takes now."""
        cdef uint64_t n
        return [n for n in range(self.head, self.next_)
                if self.entries[n & self.mask].state & OPEN
                and self.entries[n & self.mask].size > self.outbound.max_payload]

    def is_unknown(self, uint64_t number):
        """Whether a copy of an open message may be stored, apart from the last one sent."""
        cdef Entry *entry = self._open_entry(number)
        return entry != NULL and (entry.state & UNKNOWN) != 0

    def is_refused(self, uint64_t number):
        """Whether the copy of an open message that was sent last is certainly not stored."""
        cdef Entry *entry = self._open_entry(number)
        return entry != NULL and (entry.state & REFUSED) != 0

    def refuse(self, uint64_t number, bint maybe_stored=False):
        """Note that the last copy of a message was refused and is not stored (or maybe another
        copy is: the server is busy with one)."""
        cdef Entry *entry
        acquire(self.guard, -1)
        entry = self._open_entry(number)
        if entry != NULL:
            entry.state |= (REFUSED | UNKNOWN) if maybe_stored else REFUSED
        unlock(self.guard)

    def take_held(self):
        """Whether messages were not handed over, for want of a link or of room, since last asked."""
        cdef bint held = self.held
        self.held = False
        return held

    def mark_lost(self):
        """Note that the answer to every message sent so far may be lost.

        Returns the numbers of those without an id: sending them again could store them twice."""
        cdef uint64_t n
        cdef Entry *entry
        cdef list hopeless = []
        acquire(self.guard, -1)
        try:
            for n in range(self.head, self.next_):
                entry = &self.entries[n & self.mask]
                if entry.state & OPEN and not entry.state & (REFUSED | SENDING):
                    entry.state |= UNKNOWN | LOST
                    if not entry.state & HAS_ID:
                        hopeless.append(n)
            return hopeless
        finally:
            unlock(self.guard)

    cdef jet_span _frame(self, Entry *entry) noexcept:
        return span_of(jet_buf_ptr(&self.chunks[entry.chunk].frames) + entry.offset, entry.length)

    def message_id(self, uint64_t number):
        """The id of an open message, or None."""
        cdef Entry *entry
        cdef jet_span frame, value
        acquire(self.guard, -1)
        try:
            entry = self._open_entry(number)
            if entry == NULL or not entry.state & HAS_ID:
                return None
            frame = self._frame(entry)
            frame.ptr += frame.len - entry.size - 2
            frame.len = entry.header
            if not jet_header_find(frame, span_of_bytes(ID_NAME), &value):
                return None
            return bytes_of(value).decode("utf-8", "surrogateescape")
        finally:
            unlock(self.guard)

    cdef jet_span _subject(self, Entry *entry) noexcept:
        cdef jet_span frame = self._frame(entry)
        cdef jet_span subject = span_of(frame.ptr + (5 if entry.header else 4), 0)  # HPUB or PUB
        while subject.ptr[subject.len] != c' ':
            subject.len += 1
        return subject

    def unknown_subjects(self):
        """The different subjects of messages that wait to be sent again and may be stored."""
        cdef uint64_t n
        cdef Entry *entry
        cdef set found = set()
        acquire(self.guard, -1)
        try:
            for n in range(self.head, self.next_):
                entry = &self.entries[n & self.mask]
                if entry.state & UNKNOWN and entry.state & (LOST | REFUSED):
                    found.add(bytes_of(self._subject(entry)))
            return {name.decode("utf-8", "surrogateescape") for name in found}
        finally:
            unlock(self.guard)

    def numbers_on(self, str subject not None):
        """The numbers of the open messages of a subject."""
        cdef uint64_t n
        cdef Entry *entry
        cdef bytes wanted = subject.encode("utf-8", "surrogateescape")
        cdef list found = []
        acquire(self.guard, -1)
        try:
            for n in range(self.head, self.next_):
                entry = &self.entries[n & self.mask]
                if entry.state & OPEN and bytes_of(self._subject(entry)) == wanted:
                    found.append(n)
            return found
        finally:
            unlock(self.guard)

    def resend(self, double max_age):
        """Send open messages again: those that were refused, and those whose answer may be lost.

        One that may be stored only with an id, and only if it was sent first at most `max_age`
        seconds ago: the stream drops the copies. Returns how many were handed over; the rest stays refused."""
        cdef uint64_t n, first = self.head
        cdef Entry *entry
        cdef jet_buf frames
        cdef jet_span frame
        cdef uint64_t count = 0, total = 0
        cdef double oldest = monotonic() - max_age
        jet_buf_init(&frames)
        acquire(self.guard, -1)
        try:
            self._flush()
            for n in range(self.head, self.next_):
                entry = &self.entries[n & self.mask]
                if not entry.state & (LOST | REFUSED):
                    continue
                if entry.state & UNKNOWN and (not entry.state & HAS_ID
                                              or self.chunks[entry.chunk].sent < oldest):
                    continue
                frame = self._frame(entry)
                if jet_buf_append(&frames, frame.ptr, frame.len) != JET_OK:
                    raise MemoryError("no memory to send again")
                entry.state = (entry.state | SENDING) & ~(REFUSED | LOST)
                count += 1
                if jet_buf_len(&frames) >= CHUNK_BYTES:
                    total += self._send_again(first, &frames, count)
                    first = n + 1
                    count = 0
            if count:
                total += self._send_again(first, &frames, count)
            return total
        finally:
            unlock(self.guard)
            jet_buf_free(&frames)

    cdef uint64_t _send_again(self, uint64_t first, jet_buf *frames, uint64_t count) except? 0:
        cdef uint64_t n
        cdef bint taken
        try:
            taken = self._hand_over(first, span_of(jet_buf_ptr(frames), jet_buf_len(frames)), count)
            return count if taken else 0
        finally:
            jet_buf_clear(frames, CHUNK_MEMORY)
            for n in range(max(first, self.head), self.next_):
                self.entries[n & self.mask].state &= ~SENDING
