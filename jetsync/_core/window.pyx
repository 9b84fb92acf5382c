"""PublishWindow: many publishes in flight, their acknowledgements matched by arithmetic.

Messages get numbers 0, 1, 2 ... in the order they are added, and are handed over in that order: the
ones from `unsent` on wait for a link, for room, or until what was lost before them is sent again. A
message's reply subject ends in its number (and, with a key, a proof), so an acknowledgement is matched by arithmetic. Encoded
frames are kept until they are acknowledged: sending again is a copy. For each message the window
knows whether a copy that was sent may be stored; what to do about it is decided above
(jetstream/publish/window_keeper.py).

Under `guard` no Python object is made that the garbage collector tracks, and no error is raised: a
collection could run a finalizer that publishes, which waits for the guard of its own thread.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memchr, memcmp, memcpy

from jetsync._core.csrc cimport (
    JET_ERR_MEMORY, JET_OK, bytes_of, jet_buf, jet_buf_append, jet_buf_clear, jet_buf_free,
    jet_buf_init, jet_buf_len, jet_buf_ptr, jet_buf_reserve, jet_chain_take, jet_encode_pub,
    jet_header_find, jet_puback, jet_puback_next, jet_record, jet_span,
    span_of, span_of_bytes,
)
from jetsync._core.link cimport link_queue_tell_held
from jetsync._core.mailbox cimport Mailbox
from jetsync._core.numbering cimport Numbering
from jetsync._core.outbound cimport Outbound
from jetsync._core.sync cimport acquire, deadline_of, free_lock, monotonic, new_lock, unlock

from jetsync.errors import MaxPayloadError


cdef enum:
    MAX_CAPACITY = 1 << 24

cdef bytes MSG_ID = b"Nats-Msg-Id"

# An answer that needs a closer look; `length` bytes of payload follow.
cdef struct Odd:
    uint64_t number
    int status
    size_t length


cdef bint same(jet_span text, bytes other) noexcept:
    return (text.len == <size_t>len(other)
            and memcmp(text.ptr, <const char *>other, text.len) == 0)


cdef bint holds(jet_span text, bytes part) noexcept:
    """Whether `part` stands somewhere in `text`."""
    cdef const uint8_t *p = text.ptr
    cdef const uint8_t *end = text.ptr + text.len
    cdef size_t n = len(part)
    while <size_t>(end - p) >= n:
        p = <const uint8_t *>memchr(p, (<const char *>part)[0], (end - p) - n + 1)
        if p == NULL:
            return False
        if memcmp(p, <const char *>part, n) == 0:
            return True
        p += 1
    return False


cdef list read_odd(jet_buf *lines):
    """The answers put aside as (number, status, payload); gives their memory back."""
    cdef Odd line
    cdef list odd = []
    cdef size_t at = 0
    try:
        while at < jet_buf_len(lines):
            memcpy(&line, jet_buf_ptr(lines) + at, sizeof(Odd))
            at += sizeof(Odd)
            odd.append((line.number, line.status,
                        bytes_of(span_of(jet_buf_ptr(lines) + at, line.length))))
            at += line.length
        return odd
    finally:
        jet_buf_free(lines)


cdef class PublishWindow:
    """A bounded window of unacknowledged publishes. One thread adds, any may do the rest.

    `reply_prefix` is the reply subject up to the message number; `id_prefix` (or None) makes the
    automatic message id together with the number; `fixed` are header lines for every message.
    With `only_linked` nothing goes into the reconnect buffer and no call waits for room: what
    cannot be handed over now is handed over by a later `flush`.

    `capacity` messages may be unacknowledged, or what the link holds up to `most`, and
    `capacity_bytes` of their frames. Only acknowledgements of `domain` and of the stream `expected`
    count as such; empty: all do.
    """

    def __cinit__(self, Outbound outbound not None, Mailbox mailbox not None,
                  bytes reply_prefix not None, bytes id_prefix, bytes fixed not None,
                  uint32_t capacity, size_t capacity_bytes=16 << 20, bint only_linked=False,
                  uint32_t ring=0, uint32_t most=0, bytes domain=b"", bytes expected=b"",
                  bytes key=b""):
        self.guard = new_lock()
        self.outbound = outbound
        self.mailbox = mailbox
        self.reply_prefix = reply_prefix
        self.numbering = Numbering(reply_prefix, id_prefix, fixed, key)
        self.base = self.capacity = min(max(capacity, 1), MAX_CAPACITY)
        self.most = min(max(most, self.capacity), <uint32_t>MAX_CAPACITY)
        self.capacity_bytes = capacity_bytes
        self.only_linked = only_linked
        self.domain = b'"domain":"' + domain + b'"' if domain else b""
        self.expected = expected
        self.ring = min(max(ring, self.most), <uint32_t>MAX_CAPACITY)
        self.size = 2
        while self.size <= self.ring:
            self.size *= 2
        self.mask = self.size - 1
        jet_buf_init(&self.odd)
        self.entries = <Entry *>calloc(self.size, sizeof(Entry))
        self.chunks = <Chunk *>calloc(self.size, sizeof(Chunk))
        if self.entries == NULL or self.chunks == NULL:
            raise MemoryError("no memory for a publish window")

    def __dealloc__(self):
        cdef uint64_t i
        if self.chunks != NULL:
            for i in range(min(<uint64_t>self.size, self.chunk_next + 1)):
                jet_buf_free(&self.chunks[i].frames)
        free(self.chunks)
        free(self.entries)
        jet_buf_free(&self.odd)
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
    def capacity_now(self):
        """How many messages may be unacknowledged at present."""
        return self.capacity

    @property
    def full(self):
        """Whether the window takes no more messages now."""
        return (self.next_ - self.head >= self.capacity
                or self.open_bytes >= self.capacity_bytes
                or self.unsent != self.next_)

    # -- adding ----------------------------------------------------------------------------------

    cdef jet_status _begin(self) noexcept:
        """Begin a chunk, in the memory of a settled one if there is any."""
        cdef Chunk *chunk = &self.chunks[self.chunk_next & self.mask]
        cdef jet_buf *spare = &self.chunks[self.chunk_spare & self.mask].frames
        if self.chunk_spare < self.chunk_head:
            jet_buf_free(&chunk.frames)  # it has some if nothing of the chunk before could be sent
            chunk.frames = spare[0]
            jet_buf_init(spare)
            self.chunk_spare += 1
        chunk.open_ = 0
        chunk.sent = 0
        return JET_ERR_MEMORY if jet_buf_reserve(&chunk.frames, CHUNK_MEMORY) == NULL else JET_OK

    def trim(self):
        """Give back the memory that is kept for messages to come."""
        acquire(self.guard, -1)
        while self.chunk_spare < self.chunk_head:
            jet_buf_free(&self.chunks[self.chunk_spare & self.mask].frames)
            self.chunk_spare += 1
        unlock(self.guard)

    cdef jet_status _add(self, jet_span subject, jet_span payload) noexcept:
        """Encode the next message, as `numbering` has prepared it, into the open chunk."""
        return self._append(subject, self.numbering.reply, self.numbering.header, payload,
                            OPEN | (HAS_ID if self.numbering.has_id else 0))

    cdef jet_status _append(self, jet_span subject, jet_span reply, jet_span header,
                            jet_span payload, uint8_t state) noexcept:
        cdef Chunk *chunk = &self.chunks[self.chunk_next & self.mask]
        cdef Entry *entry = &self.entries[self.next_ & self.mask]
        cdef size_t before = jet_buf_len(&chunk.frames)
        cdef jet_status status
        status = jet_encode_pub(&chunk.frames, subject, reply, header, payload)
        if status != JET_OK:
            return status
        entry.chunk = self.chunk_next & self.mask
        entry.offset = <uint32_t>before
        entry.length = <uint32_t>(jet_buf_len(&chunk.frames) - before)
        entry.header = <uint32_t>header.len
        entry.size = <uint32_t>(header.len + payload.len)
        entry.state = state
        chunk.open_ += 1
        if state & OPEN:
            self.open_ += 1
        self.open_bytes += entry.length
        self.next_ += 1
        return JET_OK

    cdef int _raise_too_large(self, size_t size) except -1:
        raise MaxPayloadError(
            f"message of {size} bytes (headers and payload) is over the server's limit of "
            f"{self.outbound.max_payload}"
        )

    # -- handing over ----------------------------------------------------------------------------

    cdef bint _in_step(self) noexcept:
        """Whether what is new may go out: nothing that was handed over before it has to go out
        again first. The caller holds `guard`."""
        if self.head == self.unsent:
            self.resending = self.lost = False
            self._on_link()
        return not self.resending

    cdef void _on_link(self) noexcept:
        """Hand over on the present link from now on. The caller holds `guard`."""
        if self.link != self.outbound.link_number():
            self.link = self.outbound.link_number()
            self.sampling = False
            self.trip = 0

    cdef bint _flush(self, bint wake=True) noexcept:
        """Hand over what was not handed over yet, as far as there is a link and room; the caller
        holds `guard`. Returns whether nothing is left. With `wake=False` the caller has it sent."""
        cdef uint64_t n, first, count
        cdef size_t length
        cdef Entry *entry
        cdef Chunk *chunk
        self.unsent = max(self.unsent, self.head)
        if self.unsent == self.next_:
            return True
        if not self._in_step():
            return False
        n = self.unsent
        while n < self.next_:
            entry = &self.entries[n & self.mask]
            if not entry.state:  # its time was over before it was handed over
                n += 1
                continue
            if entry.size > self.outbound.max_payload:
                if entry.state & OPEN:  # the keeper gives it up
                    self.unsent = n
                    return False
                self._drop(entry)
                n += 1
                continue
            chunk = &self.chunks[entry.chunk]
            first, length, count = n, 0, 0
            while (n < self.next_ and self.entries[n & self.mask].state
                   and self.entries[n & self.mask].chunk == entry.chunk
                   and self.entries[n & self.mask].offset == entry.offset + length
                   and self.entries[n & self.mask].size <= self.outbound.max_payload
                   and length < CHUNK_BYTES):
                length += self.entries[n & self.mask].length
                n += 1
                count += 1
            if not self.outbound.offer_frames(
                    span_of(jet_buf_ptr(&chunk.frames) + entry.offset, length), count,
                    self.link if self.only_linked else 0, wake):
                self.unsent = first
                return False
            if chunk.sent == 0 or not self.sampling:
                self._sent_first(chunk, first)
            self.unsent = n
            while first < n:
                if not self.entries[first & self.mask].state & OPEN:
                    self._drop(&self.entries[first & self.mask])
                first += 1
        self.unsent = n
        return True

    cdef void _drop(self, Entry *entry) noexcept:
        """Forget a message without confirmation."""
        entry.state = FREE
        self.open_bytes -= entry.length
        self.chunks[entry.chunk].open_ -= 1

    def flush(self):
        """Hand over what was not handed over yet, as far as that is possible. Does not wait.

        Returns whether nothing is left."""
        cdef bint all_
        if self.unsent == self.next_:
            return True
        acquire(self.guard, -1)
        all_ = self._flush()
        unlock(self.guard)
        return all_

    # -- how much is in flight -------------------------------------------------------------------

    cdef void _sent_first(self, Chunk *chunk, uint64_t number) noexcept:
        """Messages from `number` on leave now, the first ones of `chunk` or of a new measurement."""
        cdef double now = monotonic()
        if chunk.sent == 0:
            chunk.sent = now
        if not self.sampling or self.sample < self.head:
            self.sampling = True
            self.sample = number
            self.sampled_at = now
            self.sampled_stored = self.stored

    cdef void _measure(self) noexcept:
        """The sampled message is confirmed. Let the window be what the link holds: what is
        confirmed in the time of the shortest round trip, a quarter more, and `base` for the server
        to work on."""
        cdef double seconds = monotonic() - self.sampled_at
        cdef double wanted
        self.sampling = False
        if seconds <= 0 or self.base == self.most:
            return
        if self.trip == 0 or seconds < self.trip:
            self.trip = seconds
        wanted = self.base + 1.25 * self.trip * (self.stored - self.sampled_stored) / seconds
        self.capacity = <uint32_t>min(wanted, <double>self.most)

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
        """Stop waiting for a message; returns False when it was settled before."""
        cdef bint was_open
        acquire(self.guard, -1)
        was_open = self._settle(number)
        self._advance()
        unlock(self.guard)
        return was_open

    cdef bint _expects(self, uint64_t number, jet_span stream) noexcept:
        """Whether a message may be stored in this stream."""
        return not self.expected or same(stream, self.expected)

    cdef void _confirmed(self, uint64_t number, jet_puback *ack, jet_span payload) noexcept:
        """A message was just settled as stored."""
        self._count(ack.seq, ack.duplicate)

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
        cdef size_t prefix = len(self.reply_prefix)
        cdef jet_buf odd_ones
        cdef Mailbox box = self.mailbox
        if not acquire(&box.queue.take_turn, deadline):
            return []
        try:
            if not box._fill(deadline):
                return []
            acquire(self.guard, -1)
            while jet_chain_take(&box.queue.in_hand, &r):
                if r.subject.len <= prefix or memcmp(
                        r.subject.ptr, <const char *>self.reply_prefix, prefix):
                    continue
                if not self.numbering.read(
                        span_of(r.subject.ptr + prefix, r.subject.len - prefix), &number):
                    continue
                if (r.status == 0 and jet_puback_next(&self.form, r.payload, &ack)
                        and (not self.domain or holds(r.payload, self.domain))
                        and self._expects(number, ack.stream)):
                    if self._settle(number):
                        self._confirmed(number, &ack, r.payload)
                        if number == self.sample and self.sampling:
                            self._measure()
                else:
                    self._put_aside(number, r.status, r.payload)
            self._advance()
            odd_ones = self.odd
            jet_buf_init(&self.odd)
            unlock(self.guard)
        finally:
            link_queue_tell_held(&box.queue)
            unlock(&box.queue.take_turn)
        return read_odd(&odd_ones)

    cdef void _put_aside(self, uint64_t number, int status, jet_span payload) noexcept:
        """Keep an answer that needs a closer look. For want of memory it counts as lost."""
        cdef Odd line
        cdef size_t before = jet_buf_len(&self.odd)
        line.number, line.status, line.length = number, status, payload.len
        if jet_buf_reserve(&self.odd, sizeof(Odd) + payload.len) == NULL:
            return
        jet_buf_append(&self.odd, <const char *>&line, sizeof(Odd))
        jet_buf_append(&self.odd, payload.ptr, payload.len)

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
        return entry != NULL and (number >= self.unsent or (entry.state & REFUSED) != 0)

    def refuse(self, uint64_t number, bint maybe_stored=False):
        """Note that the last copy of a message was refused and is not stored (or maybe another
        copy is: the server is busy with one)."""
        cdef Entry *entry
        acquire(self.guard, -1)
        entry = self._open_entry(number)
        if entry != NULL:
            entry.state |= (REFUSED | UNKNOWN) if maybe_stored else REFUSED
            self.resending = True
        unlock(self.guard)

    @property
    def link_changed(self):
        """Whether messages were handed over on a link that is not the present one."""
        return self.link != self.outbound.link_number() and self.head < self.unsent

    @property
    def waiting(self):
        """Whether messages were not handed over yet, or wait to be sent again."""
        return max(self.unsent, self.head) < self.next_ or (self.resending and self.open_ != 0)

    def mark_lost(self):
        """Note that the answer to every message sent so far may be lost: nothing new is handed over
        until :meth:`resend` has sent them again, on the link that there is now.

        Returns the numbers of those without an id: sending them again could store them twice."""
        cdef uint64_t n
        cdef Entry *entry
        cdef list hopeless = []
        acquire(self.guard, -1)
        self._on_link()
        for n in range(self.head, self.unsent):
            entry = &self.entries[n & self.mask]
            if entry.state & OPEN:
                self.resending = self.lost = True
                if not entry.state & REFUSED:
                    entry.state |= UNKNOWN | LOST
        unlock(self.guard)
        for n in range(self.head, self.unsent):
            entry = &self.entries[n & self.mask]
            if entry.state & OPEN and entry.state & LOST and not entry.state & HAS_ID:
                hopeless.append(n)
        return hopeless

    cdef jet_span _frame(self, Entry *entry) noexcept:
        return span_of(jet_buf_ptr(&self.chunks[entry.chunk].frames) + entry.offset, entry.length)

    def message_id(self, uint64_t number):
        """The id of an open message, or None."""
        cdef Entry *entry
        cdef jet_span frame, value
        cdef bytes found = None
        acquire(self.guard, -1)
        entry = self._open_entry(number)
        if entry != NULL and entry.state & HAS_ID:
            frame = self._frame(entry)
            frame.ptr += frame.len - entry.size - 2
            frame.len = entry.header
            if jet_header_find(frame, span_of_bytes(MSG_ID), &value):
                found = bytes_of(value)
        unlock(self.guard)
        return None if found is None else found.decode("utf-8", "surrogateescape")

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
            for n in range(self.head, self.unsent):
                entry = &self.entries[n & self.mask]
                if entry.state & UNKNOWN and entry.state & (LOST | REFUSED):
                    found.add(bytes_of(self._subject(entry)))
        finally:
            unlock(self.guard)
        return {name.decode("utf-8", "surrogateescape") for name in found}

    def subject_of(self, uint64_t number):
        """The subject of an open message; empty when it is settled."""
        cdef Entry *entry
        cdef bytes found = b""
        acquire(self.guard, -1)
        entry = self._open_entry(number)
        if entry != NULL:
            found = bytes_of(self._subject(entry))
        unlock(self.guard)
        return found.decode("utf-8", "surrogateescape")

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
        """Send open messages again, in their order: those that were refused, and those whose answer
        may be lost. Then hand over what waits behind them. Does not wait.

        One that may be stored only with an id, and only if it was sent first at most `max_age`
        seconds ago: the stream drops the copies. Returns how many were sent again."""
        cdef jet_buf frames
        cdef uint64_t count = 0
        jet_buf_init(&frames)
        acquire(self.guard, -1)
        if self._resend(&frames, monotonic() - max_age, &count):
            self.resending = self.lost = False
            self._flush()
        unlock(self.guard)
        jet_buf_free(&frames)
        return count

    cdef bint _resend(self, jet_buf *frames, double oldest, uint64_t *total) noexcept:
        """Returns whether nothing is left behind for want of a link, of room or of memory."""
        cdef uint64_t n, first = self.head, count = 0
        cdef Entry *entry
        cdef jet_span frame
        for n in range(self.head, self.unsent):
            entry = &self.entries[n & self.mask]
            if not self._may_repeat(entry, oldest):
                continue
            if count and jet_buf_len(frames) + entry.length > CHUNK_BYTES:
                if not self._send_again(first, n, frames, count, oldest):
                    return False
                total[0] += count
                first, count = n, 0
            frame = self._frame(entry)
            if jet_buf_append(frames, frame.ptr, frame.len) != JET_OK:
                return False
            count += 1
        if count and not self._send_again(first, self.unsent, frames, count, oldest):
            return False
        total[0] += count
        return True

    cdef bint _may_repeat(self, Entry *entry, double oldest) noexcept:
        if not entry.state & (LOST | REFUSED):
            return False
        return not entry.state & UNKNOWN or (
            entry.state & HAS_ID and self.chunks[entry.chunk].sent >= oldest)

    cdef bint _send_again(self, uint64_t first, uint64_t end, jet_buf *frames, uint64_t count,
                          double oldest) noexcept:
        """Offer copies of the messages in [first, end) that may be repeated."""
        cdef uint64_t n
        if not self.outbound.offer_frames(span_of(jet_buf_ptr(frames), jet_buf_len(frames)), count,
                                          self.link if self.only_linked else 0, True):
            return False
        jet_buf_clear(frames, CHUNK_MEMORY)
        for n in range(first, end):
            if self._may_repeat(&self.entries[n & self.mask], oldest):
                self.entries[n & self.mask].state &= ~(REFUSED | LOST)
        return True
