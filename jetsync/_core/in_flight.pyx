"""InFlight: numbered publishes that are not confirmed, in the order in which they leave.

Messages get numbers 0, 1, 2 ... in the order they are added, and are handed over in that order: the
ones from `unsent` on wait for a link, for room, or until what was lost before them is sent again.
Encoded frames are kept until the message is settled: sending again is a copy. A large frame is not
copied to be sent first: it lies in a chunk of its own, which the window and the sender share.

The GIL guards all of this; the code that runs without it is in csrc/link. From the first change
that a method makes to the last it neither gives up the GIL, nor raises, nor makes or drops a Python
object that could run other code (a collection runs finalizers, and these may publish). So no other
thread, signal handler or finalizer ever meets a window that is half changed. A test reads the
sources for this.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from jetsync._counted import counted
from jetsync._core.csrc cimport (
    JET_ERR_MEMORY, JET_OK, jet_buf, jet_buf_clear, jet_buf_free, jet_buf_init, jet_buf_len,
    jet_buf_ptr, jet_buf_reserve, jet_encode_asking, jet_encode_pub, jet_span,
    jet_subject_is_publishable, span_of, span_of_bytes,
)
from jetsync._core.link cimport LINK_LARGE, link_share_end, link_share_new
from jetsync._core.mailbox cimport Mailbox
from jetsync._core.numbering cimport Numbering
from jetsync._core.outbound cimport Outbound
from jetsync._core.sync cimport monotonic

from jetsync.errors import ConfigError, MaxPayloadError


cdef extern from "pthread.h" nogil:
    """
    static inline uint64_t jetsync_thread(void) { return (uint64_t)(uintptr_t)pthread_self(); }
    """
    uint64_t jetsync_thread()


cdef enum:
    MAX_CAPACITY = 1 << 24

cdef uint64_t NO_TICKET = <uint64_t>-1


cdef class InFlight:
    """Numbered messages and their frames, up to a bound. One thread adds, any may do the rest.

    `reply_prefix` is the reply subject up to the message number; `id_prefix` (or None) makes the
    automatic message id together with the number; `fixed` are header lines for every message.
    With `only_linked` nothing goes into the reconnect buffer and no call waits for room: what
    cannot be handed over now is handed over by a later `flush`.

    `capacity` messages may be unacknowledged, or what the link holds up to `most`, and
    `capacity_bytes` of their frames. `domain` and `expected`: see `PublishWindow`.
    """

    def __cinit__(self, Outbound outbound not None, Mailbox mailbox not None,
                  bytes reply_prefix not None, bytes id_prefix, bytes fixed not None,
                  uint32_t capacity, size_t capacity_bytes=16 << 20, bint only_linked=False,
                  uint32_t ring=0, uint32_t most=0, domain=None, expected=None, bytes key=b""):
        if not jet_subject_is_publishable(span_of_bytes(reply_prefix + b"0")):
            raise ConfigError(f"{reply_prefix!r} is not the beginning of a reply subject")
        self.outbound = outbound
        self.mailbox = mailbox
        self.reply_prefix = reply_prefix
        self.numbering = Numbering(reply_prefix, id_prefix, fixed, key)
        self.base = self.capacity = min(max(capacity, 1), MAX_CAPACITY)
        self.most = min(max(most, self.capacity), <uint32_t>MAX_CAPACITY)
        self.capacity_bytes = capacity_bytes
        self.only_linked = only_linked
        self.ring = min(max(ring, self.most), <uint32_t>MAX_CAPACITY)
        self.size = 2
        while self.size <= self.ring:
            self.size *= 2
        self.mask = self.size - 1
        self.entries = <Entry *>calloc(self.size, sizeof(Entry))
        self.chunks = <Chunk *>calloc(self.size, sizeof(Chunk))
        if self.entries == NULL or self.chunks == NULL:
            raise MemoryError("no memory for a publish window")

    def __dealloc__(self):
        cdef uint64_t i
        if self.chunks != NULL:
            for i in range(min(<uint64_t>self.size, self.chunk_next + 1)):
                self._end_chunk(&self.chunks[i])
                jet_buf_free(&self.chunks[i].frames)
        free(self.chunks)
        free(self.entries)

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
        while self.chunk_spare < self.chunk_head:
            jet_buf_free(&self.chunks[self.chunk_spare & self.mask].frames)
            self.chunk_spare += 1

    cdef jet_status _add(self, jet_span subject, jet_span payload) noexcept:
        """Encode the next message, as `numbering` has prepared it, into the open chunk."""
        return self._append(subject, self.numbering.reply, self.numbering.header, payload,
                            OPEN | (HAS_ID if self.numbering.has_id else 0))

    cdef jet_status _append(self, jet_span subject, jet_span reply, jet_span header,
                            jet_span payload, uint8_t state) noexcept:
        cdef Chunk *chunk = &self.chunks[self.chunk_next & self.mask]
        cdef Entry *entry = &self.entries[self.next_ & self.mask]
        cdef size_t before
        cdef jet_status status
        if chunk.share != NULL or (payload.len >= <size_t>LINK_LARGE
                                   and jet_buf_len(&chunk.frames)):
            self.chunk_next += 1
            chunk = &self.chunks[self.chunk_next & self.mask]
            status = self._begin()
            if status != JET_OK:
                return status
        before = jet_buf_len(&chunk.frames)
        if state & PLAIN:
            status = jet_encode_pub(&chunk.frames, subject, reply, header, payload,
                                    self.outbound.link.max_line)
        else:
            status = jet_encode_asking(&chunk.frames, subject, reply, header, payload,
                                       self.outbound.link.max_line)
        if status != JET_OK:
            return status
        entry.chunk = self.chunk_next & self.mask
        entry.offset = <uint32_t>before
        entry.length = <uint32_t>(jet_buf_len(&chunk.frames) - before)
        entry.header = <uint32_t>header.len
        entry.size = <uint32_t>(header.len + payload.len)
        entry.state = state
        self.outbound.tickets += 1
        entry.ticket = self.outbound.tickets
        chunk.open_ += 1
        if state & OPEN:
            self.open_ += 1
        self.open_bytes += entry.length
        self.next_ += 1
        return JET_OK

    cdef int _raise_too_large(self, size_t size) except -1:
        raise MaxPayloadError(
            f"message of {counted(size, 'byte')} (headers and payload) is over the server's limit of "
            f"{self.outbound.max_payload}"
        )

    # -- handing over ----------------------------------------------------------------------------

    cdef bint _in_step(self, uint64_t before) noexcept:
        """Whether new messages may go out: no earlier message has to be sent again first."""
        if self.head == self.unsent:
            self.resending = self.lost = self.repeating = False
        if self.repeating and self._repeat(before):
            self.resending = self.lost = self.repeating = False
        return not self.resending

    cdef bint _repeat(self, uint64_t before) noexcept:
        """Hand over again the messages that have to be sent again and have a ticket below `before`.
        Returns whether none of them is left."""
        return True

    cdef void _on_link(self) noexcept:
        """Hand over on the present link from now on."""
        if self.link != self.outbound.link_number():
            self.link = self.outbound.link_number()
            self.sampling = False
            self.trip = 0

    cdef bint _flush(self, bint wake=True) noexcept:
        """Hand over messages that are new or have to be sent again, as far as there is a link and
        room. Messages of the same threads that wait in other windows go first. Returns whether
        nothing is left. With `wake=False` the caller has it sent."""
        cdef tuple windows = self.outbound.windows
        cdef InFlight ahead
        cdef uint64_t handed, before
        cdef int whose
        while True:
            before = self._first_ahead(&whose)
            if self._hand_over(before, wake):
                return True
            if whose < 0 or before > self._first_waiting(True):
                return False
            ahead = <InFlight>windows[whose]
            handed = ahead.handed
            ahead._hand_over(ahead._first_ahead(&whose), wake)
            if ahead.handed == handed:
                return False

    cdef bint _hand_over(self, uint64_t before, bint wake) noexcept:
        """Hand over messages with a ticket below `before`. Returns whether none at all is left."""
        cdef uint64_t n, first, count
        cdef size_t length
        cdef Entry *entry
        cdef Chunk *chunk
        self.unsent = max(self.unsent, self.head)
        if self.unsent == self.next_ and not self.repeating:
            return True
        if not self._in_step(before):
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
            if entry.ticket >= before:
                break
            chunk = &self.chunks[entry.chunk]
            first, length, count = n, 0, 0
            while (n < self.next_ and self.entries[n & self.mask].state
                   and self.entries[n & self.mask].chunk == entry.chunk
                   and self.entries[n & self.mask].offset == entry.offset + length
                   and self.entries[n & self.mask].size <= self.outbound.max_payload
                   and self.entries[n & self.mask].ticket < before
                   and length < <size_t>(LINK_LARGE if count == 1 else CHUNK_BYTES)):
                length += self.entries[n & self.mask].length
                n += 1
                count += 1
            if not self._offer(chunk, span_of(jet_buf_ptr(&chunk.frames) + entry.offset, length),
                               count, wake):
                self.unsent = first
                return False
            if chunk.sent == 0 or not self.sampling:
                self._sent_first(chunk, first)
            self.unsent = n
            self.handed += count
            while first < n:
                if not self.entries[first & self.mask].state & OPEN:
                    self._drop(&self.entries[first & self.mask])
                first += 1
        self.unsent = n
        return n == self.next_

    cdef bint _offer(self, Chunk *chunk, jet_span frames, uint64_t count, bint wake) noexcept:
        """Hand over frames that lie in a row in `chunk`. A single large one is not copied."""
        cdef bint large = count == 1 and frames.len >= <size_t>LINK_LARGE
        if large and chunk.share == NULL:  # nothing of a chunk is consumed: its memory begins here
            chunk.share = link_share_new(<uint8_t *>jet_buf_ptr(&chunk.frames))
        return self.outbound.offer_frames(frames, count, self.link if self.only_linked else 0, wake,
                                          chunk.share if large else NULL)

    cdef void _drop(self, Entry *entry) noexcept:
        """Forget a message without confirmation."""
        entry.state = FREE
        self.open_bytes -= entry.length
        self.chunks[entry.chunk].open_ -= 1

    def flush(self):
        """Hand over the messages that were not handed over yet, as far as possible. Does not wait.

        Returns whether nothing is left."""
        cdef bint all_
        if self.unsent == self.next_ and not self.repeating:
            return True
        all_ = self._flush()
        return all_

    # -- whose turn it is ------------------------------------------------------------------------

    cdef void _own(self) noexcept:
        """Note that this thread adds a message."""
        cdef uint64_t me = jetsync_thread()
        cdef int i
        if self.head == self.next_:
            self.owner_count = 0
        for i in range(self.owner_count):
            if self.owners[i] == me:
                return
        if self.owner_count < MANY_OWNERS:
            self.owners[self.owner_count] = me
        if self.owner_count <= MANY_OWNERS:
            self.owner_count += 1

    cdef bint _owned(self) noexcept:
        """Whether messages of this thread may be in the window."""
        cdef uint64_t me = jetsync_thread()
        cdef int i
        if self.owner_count > MANY_OWNERS:
            return True
        for i in range(self.owner_count):
            if self.owners[i] == me:
                return True
        return False

    cdef bint _shares_thread(self, InFlight other) noexcept:
        """Whether one thread may have messages in both windows."""
        cdef int i, j
        if self.owner_count > MANY_OWNERS or other.owner_count > MANY_OWNERS:
            return True
        for i in range(self.owner_count):
            for j in range(other.owner_count):
                if self.owners[i] == other.owners[j]:
                    return True
        return False

    cdef uint64_t _first_waiting(self, bint with_refused) noexcept:
        """The ticket of the first message that waits to be handed over, or to be handed over again;
        NO_TICKET: none does. Others do not wait for what a server refused for a moment."""
        cdef uint64_t n = self.head
        cdef Entry *entry
        # Messages handed over on an earlier link are lost, also before the keeper notes it.
        cdef bint stale = self.link != self.outbound.link_number()
        cdef bint waits
        if not (stale or self.lost or with_refused and self.refused):
            n = max(n, self.unsent)
        while n < self.next_:
            entry = &self.entries[n & self.mask]
            if n >= self.unsent:
                waits = entry.state != FREE
            elif entry.state & REFUSED:
                waits = with_refused
            else:
                waits = (stale and entry.state & OPEN
                         or self.lost and entry.state & LOST and n >= self.repeated)
            if waits:
                return entry.ticket
            n += 1
        if with_refused:
            self.refused = False
        return NO_TICKET

    cdef uint64_t _first_ahead(self, int *whose) noexcept:
        """The ticket of the first message that waits in another window with messages of the same
        thread; NO_TICKET: none does. `whose`: the index of that window, or -1.

        The link on which this window hands over is settled before. So when a new link comes after
        the answer, what is handed over by this answer is refused; the others' messages are lost."""
        cdef tuple windows = self.outbound.windows
        cdef uint64_t ticket, first = NO_TICKET
        cdef InFlight window
        cdef Py_ssize_t i
        whose[0] = -1
        if self.head >= self.unsent:
            self._on_link()
        for i in range(len(windows)):
            window = <InFlight>windows[i]
            if window is self or window.ended or window.head == window.next_:
                continue
            if not self._shares_thread(window):
                continue
            ticket = window._first_waiting(False)
            if ticket < first:
                first = ticket
                whose[0] = <int>i
        return first

    @property
    def has_turn(self):
        """Whether the first message that waits comes before those that wait in other windows; also
        when none waits."""
        cdef int whose
        cdef uint64_t ticket = self._first_waiting(True)
        return ticket == NO_TICKET or ticket <= self._first_ahead(&whose)

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
        """The sampled message is confirmed. Set the window to what the link holds: the messages
        confirmed in the shortest round trip, a quarter more, and `base` for the server to work
        on."""
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
            self._end_chunk(&self.chunks[self.chunk_head & self.mask])
            self.chunk_head += 1

    cdef void _end_chunk(self, Chunk *chunk) noexcept:
        """Forget its frames. Its memory is kept for the next ones unless the sender still has it."""
        if chunk.share != NULL and not link_share_end(chunk.share):
            jet_buf_init(&chunk.frames)
        chunk.share = NULL
        jet_buf_clear(&chunk.frames, CHUNK_MEMORY)

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
        cdef bint was_open = self._settle(number)
        self._advance()
        return was_open

    cdef void _count(self, uint64_t seq, bint duplicate) noexcept:
        self.stored += 1
        self.duplicates += duplicate
        if self.first_seq == 0 or seq < self.first_seq:
            self.first_seq = seq
        if seq > self.last_seq:
            self.last_seq = seq
