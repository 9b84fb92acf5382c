"""Pulls: what a pull asks for, and the account of the pulls of one inbox. No I/O and no clock.

Every method that depends on the time is given `now`. jetstream/pull/state.py, built on this
account, decides about statuses and silence.
"""

from libc.math cimport fmod, llround

from json import JSONEncoder


# How many served pulls are remembered while others are under way: statuses about them may come.
cdef Py_ssize_t SERVED_KEPT = 8

# Seconds (30 years) that a pull lasts at most: the server counts in nanoseconds of 64 bits.
cdef double LONGEST = 1e9

LAPSE = 1.0
"""Seconds after its expiry, beyond a round trip, in which the server has to end a pull."""

WARY_HEARTBEAT = 0.25
"""After a change of leader the next pull may get lost without an answer. So for a moment pulls ask
for quick heartbeats, and one that gets none is sent again."""

DEFAULT_EXPIRES = 30.0
"""How long the pulls of messages() and consume() last by default, in seconds."""

ALIGNMENT = 0.25
"""Pulls of the default length, and checks that are far away, end at multiples of so many seconds:
then the heartbeats of many idle pulls come together, and cost few wake-ups."""

cdef double alignment = ALIGNMENT
cdef double lapse = LAPSE
cdef double wary_heartbeat = WARY_HEARTBEAT

# Before a pull is tried again that had no room in the outbound buffer, in seconds.
cdef double NO_ROOM_WAIT = 0.02

cdef object to_json = JSONEncoder(separators=(",", ":")).encode


cdef class PullOptions:
    """The body of a pull request; durations in seconds. `expires` 0 is not sent. `id` is the pin
    id, of a group with the policy `pinned_client`. Immutable."""

    def __init__(self, batch, double expires, max_bytes=None, heartbeat=None, bint no_wait=False,
                 group=None, min_pending=None, min_ack_pending=None, priority=None, id=None):
        self.batch, self.expires, self.max_bytes = batch, expires, max_bytes
        self.heartbeat, self.no_wait = heartbeat, no_wait
        self.group, self.min_pending, self.min_ack_pending = group, min_pending, min_ack_pending
        self.priority, self.id = priority, id

    cdef PullOptions within(self, config, object pin, bint is_exact):
        """Fit a pull to its consumer, which refuses one above its `max_batch`, `max_expires` or
        `max_bytes`; several smaller pulls bring the same. `is_exact` leaves the number of messages
        to the server's judgement. `pin` is the id to send, or None."""
        cdef object batch = self.batch, size = self.max_bytes, beat = self.heartbeat
        cdef double expires = self.expires
        cdef bint limited = config is not None and (
            config.max_batch or config.max_expires or config.max_bytes
        )
        if not limited and pin is None:
            return self
        if limited:
            if config.max_batch and config.max_batch > 0 and not is_exact:
                batch = min(batch, config.max_batch)
            if config.max_expires and expires:
                expires = min(expires, float(config.max_expires))
            if config.max_bytes and config.max_bytes > 0:
                size = config.max_bytes if size is None else min(size, config.max_bytes)
            if beat is not None:
                beat = min(beat, expires / 2)
        return PullOptions(batch, expires, size, beat, self.no_wait, self.group, self.min_pending,
                           self.min_ack_pending, self.priority, self.id if pin is None else pin)

    def body(self):
        """The JSON of the request."""
        cdef list fields = [f'{{"batch":{self.batch}']
        if self.expires:
            fields.append(f'"expires":{llround(min(self.expires, LONGEST) * 1e9)}')
        if self.max_bytes is not None:
            fields.append(f'"max_bytes":{self.max_bytes}')
        if self.heartbeat:
            beat = llround(<double>self.heartbeat * 1e9)
            half = llround(min(self.expires, LONGEST) * 1e9) // 2
            if beat == half + 1:
                beat = half  # half, but for the rounding: the server refuses a nanosecond more
            fields.append(f'"idle_heartbeat":{beat}')
        if self.no_wait:
            fields.append('"no_wait":true')
        for name, value in (
            ("group", self.group), ("min_pending", self.min_pending),
            ("min_ack_pending", self.min_ack_pending), ("priority", self.priority),
            ("id", self.id),
        ):
            if value is not None:
                fields.append(f'"{name}":{to_json(value)}')
        return (",".join(fields) + "}").encode()


cdef class Pull:
    """One pull that has no final status yet."""


cdef class PullLedger:
    """The outstanding pulls of one inbox. For one thread at a time.

    Data messages arrive under the subject they were stored with, not under that of their pull. So
    they are charged to the oldest pull, and the status that ends a pull corrects the charge.
    """

    def __cinit__(self, *args, **kwargs):
        self.pulls = []

    def __init__(self, double now):
        self.number = 0
        self.first = 1           # numbers below belong to pulls that were called off
        self.served = 0
        self.unclaimed = 0       # messages that wait in the mailbox and came by one of those
        self.since = now         # silence counts from here, or from the last sign of life if later
        self.last_lapse = now    # when the server should have ended all of them
        self.beat = 0            # the heartbeat of the last one; 0: none
        self.sign_reads = 0      # how much had been received at the last sign of life
        self.asked_at = 0        # when the PING of a doubt was sent; 0: there is none
        self.not_before = 0      # when the next pull may be sent after a refusal (monotonic)
        self.backoff = 0
        self.wary_until = 0

    # -- counts ----------------------------------------------------------------------------------

    cdef int64_t count_outstanding(self) noexcept:
        cdef int64_t count = 0
        cdef Pull pull
        for pull in self.pulls:
            count += pull.remaining
        return count

    cdef int64_t count_outstanding_bytes(self) noexcept:
        cdef int64_t size = 0
        cdef Pull pull
        for pull in self.pulls:
            size += max(0, pull.remaining_bytes)
        return size

    cdef int64_t count_waiting(self, int64_t pending) noexcept:
        cdef int64_t unclaimed = min(self.unclaimed, pending)
        return unclaimed + max(self.count_outstanding(), pending - unclaimed)

    cdef int64_t count_waiting_bytes(self, int64_t pending_bytes) noexcept:
        if self.unclaimed:
            return self.count_outstanding_bytes() + pending_bytes
        return max(self.count_outstanding_bytes(), pending_bytes)

    @property
    def outstanding(self):
        """Messages asked for and neither delivered nor called off."""
        return self.count_outstanding()

    @property
    def outstanding_bytes(self):
        """Bytes asked for and neither delivered nor called off, of pulls that limit bytes."""
        return self.count_outstanding_bytes()

    @property
    def is_open(self):
        """Whether some pull has no final status yet."""
        return len(self.pulls) > 0

    @property
    def is_served(self):
        """Whether every pull that was ever sent was served in full: nothing more comes."""
        return self.served == self.number

    def is_waiting_for(self, uint64_t number):
        """Whether this pull has no final status yet."""
        cdef Pull pull
        for pull in self.pulls:
            if pull.number == number:
                return pull.remaining > 0
        return False

    def waiting(self, int64_t pending):
        """Messages that wait in the mailbox (`pending`) or are on their way to it. What waits is
        charged to its pull only when it is taken."""
        return self.count_waiting(pending)

    def waiting_bytes(self, int64_t pending_bytes):
        """Bytes that wait in the mailbox or are on their way, by pulls that limit bytes."""
        return self.count_waiting_bytes(pending_bytes)

    # -- pulls and what comes of them ------------------------------------------------------------

    def heard(self, uint64_t reads):
        """Note a sign of life of this inbox; `reads` counts the receives on the link by then."""
        self.sign_reads = reads
        self.asked_at = 0

    def sent(self, PullOptions options not None, double now, size_t waiting, uint64_t reads=0,
             double round_trip=0):
        """Note a pull that is being sent; returns its number. `waiting`: messages in the mailbox;
        `reads`: how often something was received on the link; `round_trip`: seconds before which
        the server cannot have answered."""
        return self.note_sent(options, now, waiting, reads, round_trip)

    cdef uint64_t note_sent(self, PullOptions options, double now, size_t waiting,
                            uint64_t reads, double round_trip) except? 0:
        cdef Pull pull = Pull.__new__(Pull)
        if not waiting:
            self.unclaimed = 0
        self.number += 1
        pull.number = self.number
        pull.remaining = options.batch
        pull.remaining_bytes = -1 if options.max_bytes is None else options.max_bytes
        pull.lapses = now + (options.expires or 3600.0)
        pull.pin = options.id
        self.last_lapse = max(self.last_lapse, pull.lapses) if self.pulls else pull.lapses
        self.beat = 0 if options.heartbeat is None else options.heartbeat
        self.pulls.append(pull)
        self.since, self.round_trip = now + round_trip, round_trip
        self.sign_reads, self.asked_at = reads, 0
        self.not_before = 0
        return self.number

    def not_sent(self, uint64_t number, double now):
        """Take a pull back that could not be sent: there was no room for it. Try again soon."""
        self.remove(number)
        self.not_before = now + NO_ROOM_WAIT

    cdef Pull remove(self, uint64_t number):
        """Forget a pull and return it; None when it is not known."""
        cdef Py_ssize_t i
        cdef Pull pull
        for i in range(len(self.pulls)):
            pull = self.pulls[i]
            if pull.number == number:
                del self.pulls[i]
                return pull
        return None

    def took(self, int64_t count, int64_t size, uint64_t reads=0):
        """Charge messages that were taken (and their bytes) to the pulls, oldest first. `reads` is
        as in `heard`."""
        self.note_took(count, size, reads)

    cdef int note_took(self, int64_t count, int64_t size, uint64_t reads) except -1:
        cdef int64_t unclaimed = min(count, self.unclaimed)
        self.sign_reads, self.asked_at = reads, 0
        self.backoff = 0
        self.unclaimed -= unclaimed
        return self.charge(count - unclaimed, size)

    cdef int charge(self, int64_t count, int64_t size) except -1:
        cdef Pull pull
        cdef int64_t taken
        cdef bint served = False
        for pull in self.pulls:
            if count <= 0:
                break
            if not pull.remaining:
                continue  # served already, and kept because a status about it may come
            taken = min(count, pull.remaining)
            pull.remaining -= taken
            count -= taken
            if pull.remaining_bytes >= 0:
                # The server counts the same bytes; the next message may just not fit any more.
                taken = min(size, pull.remaining_bytes)
                pull.remaining_bytes -= taken
                size -= taken
            if pull.remaining == 0:
                pull.remaining_bytes = -1
                served = True
        return self.forget_served() if served else 0

    cdef int forget_served(self) except -1:
        """Forget pulls that seem to be served. A few stay while others are under way: the server
        may have served those instead, and says so when it ends them."""
        cdef Pull pull
        cdef list served = []
        for pull in self.pulls:
            if pull.remaining == 0:
                served.append(pull)
        if len(served) < len(self.pulls):
            del served[max(0, len(served) - SERVED_KEPT):]
        for pull in served:
            self.pulls.remove(pull)
        self.served += len(served)
        return 0

    def settle(self, uint64_t number, left):
        """A pull has ended, and the server says how much of it is `left` (None: it does not say).
        Returns the pull, or None when it is not known any more.

        What was charged to the wrong pull moves: with several pulls waiting the server serves them
        in turns, not the oldest first.
        """
        cdef Pull pull = self.remove(number)
        cdef int64_t wrong
        if left is not None:
            wrong = <int64_t>left - (0 if pull is None else pull.remaining)
            if wrong > 0:
                self.charge(wrong, 0)
            elif self.pulls:
                (<Pull>self.pulls[0]).remaining -= wrong
        return pull

    def is_current(self, number):
        """Whether a number belongs to a pull that was not called off."""
        return number is not None and number >= self.first

    def took_status(self):
        """A status was taken out of the mailbox."""
        self.unclaimed = max(0, self.unclaimed - 1)

    def call_off(self, size_t waiting):
        """Forget every outstanding pull; what is still said about them is ignored."""
        self.pulls.clear()
        self.first = self.number + 1
        self.unclaimed = waiting
        self.asked_at = 0

    def has_lapsed(self, double now):
        """Whether the server should have ended some pull long before `now`."""
        cdef Pull pull
        for pull in self.pulls:
            if now > pull.lapses + lapse:
                return True
        return False

    def forget_lapsed(self, double now):
        """Forget pulls that the server should have ended long before `now`, when all that it had
        sent by then was taken: messages of a forgotten pull would be charged to another one."""
        cdef Pull pull
        cdef list remaining = []
        for pull in self.pulls:
            if now <= pull.lapses + lapse:
                remaining.append(pull)
        self.pulls = remaining

    # -- when to pull ----------------------------------------------------------------------------

    def back_off(self, double first, double longest, double now):
        """Pull again, but not at once: the server would refuse the next pull just the same. The
        delay is between `first` and `longest` seconds and grows each time until a message comes."""
        self.backoff = min(max(first, self.backoff), longest)
        self.not_before = now + self.backoff
        self.backoff *= 2

    def may_pull(self, double now):
        """Whether the delay after the last refusal is over."""
        return now >= self.not_before

    def be_wary(self, double until):
        """Up to `until` pulls are short and ask for quick heartbeats: see `WARY_HEARTBEAT`."""
        self.wary_until = until

    def pull_length(self, double expires, double now, bint aligned=False):
        """How long a pull may last: right after a change of leader only a moment. `aligned`: it
        ends at a multiple of `ALIGNMENT`, a little earlier."""
        return self.length(expires, now, aligned)

    cdef double length(self, double expires, double now, bint aligned) noexcept:
        if now < self.wary_until:
            return min(expires, 8 * wary_heartbeat)
        return expires - fmod(now + expires, alignment) if aligned else expires

    def heartbeat(self, wanted, double expires, double now):
        """The heartbeat of a pull that lasts `expires` seconds: quick after a change of leader, and
        none for one that is shorter than two of them. A pull that only the alignment made so short
        has one of half its length."""
        return self.heartbeat_of(wanted, expires, now)

    cdef object heartbeat_of(self, object wanted, double expires, double now):
        if now < self.wary_until:
            wanted = wary_heartbeat if wanted is None else min(wanted, wary_heartbeat)
        cdef double full = DEFAULT_EXPIRES if expires > DEFAULT_EXPIRES - alignment else expires
        if wanted is None or <double>wanted * 2 > max(expires, full):
            return None
        return min(wanted, expires / 2)

    # -- silence ---------------------------------------------------------------------------------

    def patience(self):
        """Seconds for which the PONG that explains a silence is awaited."""
        return self.patience_now()

    cdef double patience_now(self) noexcept:
        return self.round_trip + (lapse if self.beat == 0 else min(lapse, 2 * self.beat))

    def silence_due(self, double last_put):
        """When the silence after the last sign of life means something. `last_put`: when that
        came."""
        cdef double at = self.last_lapse + self.round_trip + lapse
        if self.beat:
            at = min(at, max(last_put, self.since) + 2 * self.beat)
        return at

    cdef double due(self, double now, double last_put, double *patience) noexcept:
        """When something may have to be done although nothing came. `patience` is set: so long
        after the last sign of life at the latest (seconds; 0: however long that is ago)."""
        cdef double at = now + 3600.0
        patience[0] = 0
        if self.pulls:
            at = self.last_lapse + self.round_trip + lapse
            if self.asked_at:
                if self.beat:
                    at = min(at, max(last_put, self.since) + 2 * self.beat)
                at = max(at, now + self.patience_now())
            elif self.beat:
                patience[0] = 2 * self.beat + 0.001
        if 0 < self.not_before < at:
            at = self.not_before
            if at <= now:
                # The delay ended after the caller checked it: the caller checks once more.
                at = now
                self.not_before = 0
        return at + 0.001

    def check_in(self, double now, double last_put):
        """Seconds until something may have to be done although nothing came: silence would mean
        something, or the delay after a refusal is over."""
        cdef double patience
        cdef double at = self.due(now, last_put, &patience)
        if patience:
            at = min(at, max(last_put, self.since) + patience)
        return max(0.0, at - now)
