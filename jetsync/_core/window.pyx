"""PublishWindow: publishes in flight, their acknowledgements matched by arithmetic.

A message's reply subject ends in its number (and, with a key, a proof), so an acknowledgement is
matched by arithmetic. For each message the window knows whether a copy that was sent may be stored;
jetstream/publish/window_keeper.py decides what to do.

The GIL guards a window, as `_core/in_flight.pyx` says; only `collect` waits, before it changes
anything.
"""

from libc.math cimport INFINITY
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from jetsync._core.csrc cimport (
    JET_OK, bytes_of, jet_buf, jet_buf_append, jet_buf_clear, jet_buf_free,
    jet_buf_init, jet_buf_len, jet_buf_ptr, jet_buf_reserve, jet_chain_drop, jet_chain_peek,
    jet_header_find, jet_puback, jet_puback_next, jet_record, jet_span, span_of, span_of_bytes,
)
from jetsync._core.in_flight cimport (
    CHUNK_BYTES, CHUNK_MEMORY, HAS_ID, LOST, OPEN, REFUSED, UNKNOWN, Entry, InFlight,
)
from jetsync._core.link cimport link_queue_note_ready
from jetsync._core.mailbox cimport Mailbox
from jetsync._core.sync cimport acquire, deadline_of, monotonic, unlock


cdef bytes MSG_ID = b"Nats-Msg-Id"

# An answer that Python has to judge; `length` bytes of payload follow.
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


cdef class PublishWindow(InFlight):
    """A bounded window of unacknowledged publishes. One thread adds, any may do the rest.

    Its parameters are those of `InFlight`. Only acknowledgements of `domain` and of the stream
    `expected` count as such; empty: all do.
    """

    def __cinit__(self, *args, bytes domain=b"", bytes expected=b"", **others):
        jet_buf_init(&self.odd)
        self.domain = b'"domain":"' + domain + b'"' if domain else b""
        self.expected = expected
        self.ends = INFINITY

    def __dealloc__(self):
        jet_buf_free(&self.odd)

    # -- answers ---------------------------------------------------------------------------------

    def collect(self, timeout):
        """Take the acknowledgements that are there; wait up to `timeout` seconds for the first.

        Returns the answers that the caller has to judge: a list of (number, status, payload). Raises
        MemoryError without memory; the answers that are left are there for the next call."""
        cdef double deadline = 0 if timeout <= 0 else deadline_of(timeout)
        cdef jet_record r
        cdef Mailbox box = self.mailbox
        if not acquire(&box.queue.take_turn, deadline):
            return []
        try:
            if not self.odd_count and not box._fill(deadline):
                return []
            while jet_chain_peek(&box.queue.ready, &r):
                self._read_answer(&r)
                jet_chain_drop(&box.queue.ready, &r)
            self._advance()
            return self._take_odd()
        finally:
            link_queue_note_ready(&box.queue)
            unlock(&box.queue.take_turn)

    cdef int _read_answer(self, jet_record *r) except -1:
        """Deal with one answer. Without memory for that it raises, with nothing changed."""
        cdef jet_puback ack
        cdef uint64_t number = 0
        cdef size_t prefix = len(self.reply_prefix)
        if (r.subject.len <= prefix
                or memcmp(r.subject.ptr, <const char *>self.reply_prefix, prefix) != 0
                or not self.numbering.read(
                    span_of(r.subject.ptr + prefix, r.subject.len - prefix), &number)):
            return 0
        if (r.status != 0 or not jet_puback_next(&self.layout, r.payload, &ack)
                or (self.domain and not holds(r.payload, self.domain))
                or not self._expects(number, ack.stream)):
            return self._put_aside(number, r.status, r.payload)
        if self._open_entry(number) == NULL:
            return 0
        self._confirmed(number, &ack, r.payload)
        self._settle(number)
        self._count(ack.seq, ack.duplicate)
        if number == self.sample and self.sampling:
            self._measure()
        return 0

    cdef bint _expects(self, uint64_t number, jet_span stream) noexcept:
        """Whether a message may be stored in this stream."""
        return not self.expected or same(stream, self.expected)

    cdef int _confirmed(self, uint64_t number, jet_puback *ack, jet_span payload) except -1:
        """Settle an open message as stored. An exception changes nothing."""
        return 0

    cdef int _put_aside(self, uint64_t number, int status, jet_span payload) except -1:
        """Keep an answer that Python has to judge."""
        cdef Odd line
        line.number, line.status, line.length = number, status, payload.len
        if jet_buf_reserve(&self.odd, sizeof(Odd) + payload.len) == NULL:
            raise MemoryError("no memory for confirmations")
        jet_buf_append(&self.odd, <const char *>&line, sizeof(Odd))
        jet_buf_append(&self.odd, payload.ptr, payload.len)
        self.odd_count += 1
        return 0

    cdef list _take_odd(self):
        """The answers put aside as (number, status, payload). Without memory for that they stay. The
        caller has the take turn."""
        cdef Odd line
        cdef list odd = []
        cdef size_t at = 0
        if self.odd_count == 0:
            return odd
        while at < jet_buf_len(&self.odd):
            memcpy(&line, jet_buf_ptr(&self.odd) + at, sizeof(Odd))
            at += sizeof(Odd)
            odd.append((line.number, line.status,
                        bytes_of(span_of(jet_buf_ptr(&self.odd) + at, line.length))))
            at += line.length
        self.odd_count = 0
        jet_buf_free(&self.odd)
        return odd

    def confirm(self, uint64_t number, uint64_t seq, bint duplicate):
        """Settle a message as stored; for confirmations that `collect` could not read itself."""
        if self._settle(number):
            self._count(seq, duplicate)
            self._advance()

    # -- what is known about the open ones, and sending them again -------------------------------

    def open_numbers(self):
        """The numbers of the messages that are not settled."""
        cdef uint64_t n
        cdef list found = []
        for n in range(self.head, self.next_):
            if self.entries[n & self.mask].state & OPEN:
                found.append(n)
        return found

    def oversized(self):
        """The numbers of open messages that are larger than the server takes now."""
        cdef uint64_t n
        cdef list found = []
        for n in range(self.head, self.next_):
            if (self.entries[n & self.mask].state & OPEN
                    and self.entries[n & self.mask].size > self.outbound.max_payload):
                found.append(n)
        return found

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
        cdef Entry *entry = self._open_entry(number)
        if entry != NULL:
            entry.state |= (REFUSED | UNKNOWN) if maybe_stored else REFUSED
            self.refused = self.resending = True
            self.repeating = False

    @property
    def link_changed(self):
        """Whether messages were handed over on a link that is not the present one."""
        return self.link != self.outbound.link_number() and self.head < self.unsent

    @property
    def waiting(self):
        """Whether messages were not handed over yet, or wait to be sent again."""
        return max(self.unsent, self.head) < self.next_ or (self.resending and self.open_ != 0)

    @property
    def handed_over(self):
        """The number below which all messages were handed over."""
        return max(self.unsent, self.head)

    def is_overtaken(self, uint64_t number):
        """Whether a message below a number is open although one from the number on is settled."""
        cdef uint64_t n
        if self.head < number:
            for n in range(number, self.unsent):
                if not self.entries[n & self.mask].state & OPEN:
                    return True
        return False

    def mark_lost(self, below=None):
        """Note that the answer to every message sent so far may be lost (with `below`, to those with
        smaller numbers): nothing new is handed over until :meth:`resend` has sent them again, on
        the link that there is now.

        Returns the numbers of those without an id: sending them again could store them twice."""
        cdef uint64_t n
        cdef uint64_t end = self.unsent if below is None else min(<uint64_t>below, self.unsent)
        cdef Entry *entry
        cdef list hopeless = []
        self._on_link()
        self.repeating = False
        self.repeated = self.head
        for n in range(self.head, end):
            entry = &self.entries[n & self.mask]
            if entry.state & OPEN:
                self.resending = self.lost = True
                if not entry.state & REFUSED:
                    entry.state |= UNKNOWN | LOST
        for n in range(self.head, end):
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
        entry = self._open_entry(number)
        if entry != NULL and entry.state & HAS_ID:
            frame = self._frame(entry)
            frame.ptr += frame.len - entry.size - 2
            frame.len = entry.header
            if jet_header_find(frame, span_of_bytes(MSG_ID), &value):
                found = bytes_of(value)
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
        cdef set found = set(), names = set()
        for n in range(self.head, self.unsent):
            entry = &self.entries[n & self.mask]
            if entry.state & UNKNOWN and entry.state & (LOST | REFUSED):
                found.add(bytes_of(self._subject(entry)))
        for name in tuple(found):
            names.add(name.decode("utf-8", "surrogateescape"))
        return names

    def subject_of(self, uint64_t number):
        """The subject of an open message; empty when it is settled."""
        cdef Entry *entry
        cdef bytes found = b""
        entry = self._open_entry(number)
        if entry != NULL:
            found = bytes_of(self._subject(entry))
        return found.decode("utf-8", "surrogateescape")

    def numbers_on(self, str subject not None):
        """The numbers of the open messages of a subject."""
        cdef uint64_t n
        cdef Entry *entry
        cdef bytes wanted = subject.encode("utf-8", "surrogateescape")
        cdef list found = []
        for n in range(self.head, self.next_):
            entry = &self.entries[n & self.mask]
            if entry.state & OPEN and bytes_of(self._subject(entry)) == wanted:
                found.append(n)
        return found

    def resend(self, double max_age):
        """Send open messages again, in their order: those that were refused, and those whose answer
        may be lost. Then hand over what waits behind them. Does not wait: what cannot go out now,
        or has to wait for messages in other windows, goes out with a later call or `flush`.

        One that may be stored only with an id, and only if it was sent first at most `max_age`
        seconds ago: the stream drops the copies. One that is not stored for certain only if it has
        `last_attempt` seconds left. Returns how many were sent again."""
        cdef uint64_t before = self.copies
        self.max_age = max_age
        self.resending = self.repeating = True
        self._flush()
        return self.copies - before

    cdef bint _repeat(self, uint64_t before) noexcept:
        cdef jet_buf frames
        cdef bint done
        cdef double now = monotonic()
        self.oldest_sent = now - self.max_age
        self.last_moment = now + self.last_attempt
        jet_buf_init(&frames)
        done = self._copy_and_send(&frames, before)
        jet_buf_free(&frames)
        return done

    cdef bint _copy_and_send(self, jet_buf *frames, uint64_t before) noexcept:
        """Returns whether nothing is left behind for want of a link, of room, of memory or because
        it is not its turn."""
        cdef uint64_t n = self.head, first = self.head, count = 0
        cdef Entry *entry
        cdef jet_span frame
        while n < self.unsent:
            entry = &self.entries[n & self.mask]
            if not self._may_repeat(entry):
                n += 1
                continue
            if entry.ticket >= before:
                break
            if count and jet_buf_len(frames) + entry.length > CHUNK_BYTES:
                if not self._send_again(first, n, frames, count):
                    return False
                first, count = n, 0
            frame = self._frame(entry)
            if jet_buf_append(frames, frame.ptr, frame.len) != JET_OK:
                return False
            count += 1
            n += 1
        if count and not self._send_again(first, n, frames, count):
            return False
        self.repeated = n
        return n == self.unsent

    cdef bint _may_repeat(self, Entry *entry) noexcept:
        if not entry.state & (LOST | REFUSED):
            return False
        if not entry.state & UNKNOWN:
            # Without an answer a copy would make an outcome unknown that is known.
            return self._end_of(entry) > self.last_moment
        return entry.state & HAS_ID and self.chunks[entry.chunk].sent >= self.oldest_sent

    cdef double _end_of(self, Entry *entry) noexcept:
        """When the time of a message is over (monotonic)."""
        return self.ends

    cdef bint _send_again(self, uint64_t first, uint64_t end, jet_buf *frames,
                          uint64_t count) noexcept:
        """Offer copies of the messages in [first, end) that may be repeated."""
        cdef uint64_t n
        if not self.outbound.offer_frames(span_of(jet_buf_ptr(frames), jet_buf_len(frames)), count,
                                          self.link if self.only_linked else 0, True):
            return False
        jet_buf_clear(frames, CHUNK_MEMORY)
        for n in range(first, end):
            if self._may_repeat(&self.entries[n & self.mask]):
                self.entries[n & self.mask].state &= ~(REFUSED | LOST)
        self.repeated = end
        self.handed += count
        self.copies += count
        return True
