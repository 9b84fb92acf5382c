"""Window: how much a stream of messages may have in its buffer and on its way. No I/O, no clock."""

cdef int64_t HUGE = 1_000_000
cdef double ENOUGH = 4     # times what the link holds (rate times round trip): more would not help
cdef double AHEAD = 2.0    # seconds of work of its user that a grown window may hold

HUGE_BATCH = HUGE
"""Messages asked for when only bytes are limited: the server takes 0 as 1."""

DEFAULT_MESSAGES = 1000
"""Messages in the buffer of a stream whose bounds were not given, at first."""

LARGEST_WINDOW = 64_000
"""Messages to which that buffer may grow while its user waits for the link."""

LARGEST_BUFFER = 32 * 2**20
"""Bytes to which it may grow."""

cdef int64_t default_messages = DEFAULT_MESSAGES
cdef int64_t largest_window = LARGEST_WINDOW
cdef int64_t largest_buffer = LARGEST_BUFFER


cdef class Window:
    """The bounds of one stream. What the user gave is a hard bound. Otherwise it begins with 1000
    messages and doubles while the user waits for messages that the server has ready, up to four
    times what the link holds, and 64,000 messages or 32 MiB. For one thread at a time.

    `limits` are checked options (`BufferLimits`). `most` is a bound that the consumer sets, such as
    its `max_ack_pending`; 0: none.
    """

    def __init__(self, limits, int64_t most=0):
        self.max_messages = limits.max_messages
        self.threshold_messages = limits.threshold_messages
        self.max_bytes = limits.max_bytes
        self.threshold_bytes = limits.threshold_bytes
        self.grows = limits.grows
        self.most = min(largest_window, most) if most > 0 else largest_window
        # Whether it is of use to tell when the user waits.
        self.may_grow = self.grows and self.max_messages < self.most
        self.rate = 0
        # The next message needs all of `max_bytes` for itself: ask when the buffer is empty.
        self.is_whole = False

    def plan(self, *, int64_t waiting, int64_t buffered, int64_t waiting_bytes,
             int64_t buffered_bytes, left):
        """Return (messages to ask for now, or 0; how many may be left in the buffer when this is to
        be asked again).

        `waiting` counts what is on its way or in the mailbox, `buffered` what is prefetched, `left`
        how many messages are still wanted (None: no end).
        """
        cdef int64_t threshold
        cdef int64_t count = self.ask(waiting, buffered, waiting_bytes, buffered_bytes,
                                      -1 if left is None else left, &threshold)
        return count, threshold

    cdef int64_t ask(self, int64_t waiting, int64_t buffered, int64_t waiting_bytes,
                     int64_t buffered_bytes, int64_t left, int64_t *threshold) noexcept:
        """See `plan`; `left` below 0: no end."""
        cdef int64_t have = waiting + buffered, want
        threshold[0] = 0
        if self.max_bytes is not None:
            return self.ask_bytes(buffered, waiting_bytes, buffered_bytes, left, threshold)
        want = self.max_messages - have
        if left >= 0:
            want = min(want, left - waiting)
        if want <= 0:
            return 0
        if have > self.threshold_messages:
            # The message after which no more than the threshold is there is taken the slow way.
            threshold[0] = max(0, self.threshold_messages - waiting + 1)
            return 0
        return want

    cdef int64_t ask_bytes(self, int64_t buffered, int64_t waiting_bytes, int64_t buffered_bytes,
                           int64_t left, int64_t *threshold) noexcept:
        cdef int64_t most = 0 if self.is_whole else self.threshold_bytes
        cdef int64_t want = HUGE if left < 0 else left
        cdef int64_t each
        if want <= 0:
            return 0
        if waiting_bytes + buffered_bytes <= most:
            return want
        if buffered:
            # The prefetched messages have about the same size.
            each = max(1, buffered_bytes // buffered)
            threshold[0] = min(buffered, max(0, most - waiting_bytes) // each + 1)
        return 0

    def bytes_for(self, int64_t count, int64_t have_bytes):
        """The bytes that a pull of `count` messages may bring; None: no bound."""
        return self.size_of(count, have_bytes)

    cdef object size_of(self, int64_t count, int64_t have_bytes):
        if self.max_bytes is not None:
            return max(1, self.max_bytes - have_bytes)
        if self.max_messages > default_messages and self.grows:
            return max(1, count * largest_buffer // self.max_messages)
        return None

    # -- growing ---------------------------------------------------------------------------------

    def took(self, int64_t count, double seconds):
        """Note that so many messages came in so many seconds, in which the user waited."""
        self.note_took(count, seconds)

    cdef int note_took(self, int64_t count, double seconds) except -1:
        cdef double rate = count / max(seconds, 1e-6)
        self.rate = self.rate + (rate - self.rate) / 4 if self.rate else rate
        return 0

    def starved(self, double round_trip, int64_t each):
        """Double the window if the link can hold it: the user waits although the server has more
        messages. `round_trip` in seconds, `each`: bytes of a message."""
        self.note_starved(round_trip, each)

    cdef int note_starved(self, double round_trip, int64_t each) except -1:
        cdef int64_t most = min(self.most, largest_buffer // (2 * max(1, each)))
        cdef double useful = ENOUGH * self.rate * round_trip
        if self.grows and self.max_messages < min(<double>most, useful):
            return self.resize(min(most, 2 * self.max_messages))
        return 0

    def slowed(self, int64_t count, double seconds):
        """Note how many seconds the user worked on how many messages: the window keeps messages for
        a short time of that work."""
        self.note_slowed(count, seconds)

    cdef int note_slowed(self, int64_t count, double seconds) except -1:
        if self.grows and self.max_messages > default_messages and seconds > AHEAD / 4:
            if AHEAD * count / seconds < self.max_messages:
                return self.resize(<int64_t>(AHEAD * count / seconds))
        return 0

    def shrink(self):
        """A message did not fit into a pull: return to the first size. Returns whether it had
        grown, so that the bound in bytes was not the user's."""
        cdef bint had_grown = self.grows and self.max_messages > default_messages
        if had_grown:
            self.resize(default_messages)
        return had_grown

    cdef int resize(self, int64_t size) except -1:
        self.max_messages = max(default_messages, size)
        self.threshold_messages = self.max_messages // 2
        return 0
