# cython: nonecheck=True
"""PullLine: one inbox of a consumer on its link. Sends pulls and takes what they bring."""

# Without `begin` the attributes are None, which every use checks (nonecheck).
from jetsync._core.link cimport link_count, link_counts
from jetsync._core.mailbox cimport counts_of
from jetsync._core.outbound cimport put_message
from jetsync._core.sync cimport deadline_of, monotonic

from jetsync._core.batch import last_of
from jetsync.errors import OutboundFullError


cdef class PullLine:
    """The pulls of one consumer on one inbox: joins their account to a mailbox and an outbound
    buffer. For one thread at a time. The subclass says what statuses mean (`_on_statuses`).
    """

    def _bind(self, consumer, str subject, str prefix, Mailbox mailbox not None,
              PullLedger state not None, Outbound outbound not None, presence, batch_type,
              round_trip):
        """Set the objects that it uses, once. Pulls are asked for on `subject` and answered on
        `prefix` and their number; `presence.asked` is not None while a sign of life is of interest,
        and `presence.seen()` is called then. `round_trip.seconds` is that to the server."""
        self.consumer = consumer
        self.subject, self.prefix = subject, prefix
        self.mailbox, self.state, self.outbound = mailbox, state, outbound
        self.presence, self.batch_type, self.round_trip = presence, batch_type, round_trip
        self.rest = PrefetchBuffer()
        self.batch = self.new_batch()

    def pull(self, PullOptions options not None, ack=None, *, bint is_exact=False, seconds=None):
        """Send one pull request; returns its number, 0 when there was no room for it in the
        outbound buffer. Waits for room up to `seconds` (None: `write_timeout`).

        With `ack` it goes out with the acknowledgement of that message (`+NXT`). `is_exact`: the
        user asked for this number of messages, and is told when the consumer does not take it.
        """
        return self.send(options, is_exact, ack, -1 if seconds is None else deadline_of(seconds))

    cdef uint64_t send(self, PullOptions options, bint is_exact, object ack,
                       double deadline) except? 0:
        cdef uint64_t number
        cdef size_t waiting = counts_of(&self.mailbox.queue).messages
        cdef uint64_t reads = 0
        cdef object data, reply
        if self.mailbox.reader != NULL:
            reads = link_count(&self.mailbox.reader.reads)
        options = options.within(self.consumer.cached_info.config,
                                 None if self.pin is None else self.pin.id, is_exact)
        number = self.state.note_sent(options, monotonic(), waiting, reads,
                                      self.round_trip.seconds)
        data, reply = options.body(), f"{self.prefix}{number}"
        try:
            if ack is None:
                put_message(self.outbound, self.subject, data, reply, b"", False, deadline, 0)
            else:
                put_message(self.outbound, ack.reply or "", b"+NXT " + data, reply, b"", False,
                            deadline, 0)
        except BaseException as error:  # no room; a signal handler while it waited for room
            self.state.not_sent(number, monotonic())
            if isinstance(error, OutboundFullError):
                return 0
            raise
        self.outbound.send_now()
        if ack is not None:
            ack._sent_ack()
        return number

    def take(self, size_t limit, wait=0, size_t least=1):
        """Take messages into `batch` until it has `limit`; wait up to `wait` seconds (None: no
        limit) until it has `least`, a status comes, or the caller has to check something. Returns
        what ended on the way.

        After an exception, as of a signal handler, the batch has what was taken.
        """
        return self.collect(limit, 0 if wait is not None and wait <= 0 else deadline_of(wait),
                            least)

    cdef object collect(self, size_t limit, double until, size_t least):
        """See `take`; until a point of the monotonic clock: negative: no limit, 0: do not wait."""
        cdef Mailbox mailbox = self.mailbox
        cdef size_t before = self.batch.chain.bytes
        cdef uint64_t taken
        cdef double due, patience = 0
        cdef list statuses = []
        cdef link_counts now
        self.sent_seq = 0
        if until != 0:
            now = counts_of(&mailbox.queue)
            if not now.messages:
                self.outbound.send_held()
            due = self.state.due(monotonic(), now.last_put, &patience)
            if until < 0 or due < until:
                until = due
        mailbox.collect(self.batch, limit, until, least, patience, self.state.since, statuses)
        # Charge what was taken to the pulls, once: an interrupted call leaves that to the next.
        taken = link_count(&mailbox.queue.taken)
        if taken == self.charged and not statuses:
            return ()
        now = counts_of(&mailbox.queue)
        if taken != self.charged:
            if self.presence.asked is not None:
                self.presence.seen()
            self.state.note_took(taken - self.charged, self.batch.chain.bytes - before,
                                 now.last_reads)
            self.charged = taken
            if self.pin is not None and self.batch.rows:
                self.pin.learn(last_of(self.batch))
        if not statuses:
            return ()
        self.state.heard(now.last_reads)
        return self._on_statuses(statuses)

    # -- batches: what was taken out of the mailbox and not handed out ---------------------------

    def new_batch(self):
        """Return an empty batch for the messages of this inbox."""
        batch = self.mailbox.new_batch(self.batch_type, self.outbound)
        batch._ack_none = self.consumer.ack_none
        return batch

    def release(self):
        """Return the batch to the loop, which hands it out; the inbox goes on with an empty one."""
        batch, self.batch = self.batch, self.new_batch()
        return batch

    def begin(self, size_t limit):
        """Begin a batch with what earlier calls left, at most `limit` messages of it."""
        if self.batch.rows:
            self.rest._take_over(self.batch)
        if self.rest.chain.count:
            self.batch = self.new_batch()
            self.rest._move_into(self.batch, limit)
        if self.batch.rows < limit and counts_of(&self.mailbox.queue).messages:
            self.collect(limit, 0, 1)

    def adopt(self, MsgBatch batch not None):
        """Go on with the batch of another inbox, or with what that one left."""
        if self.batch.rows:
            self.rest._take_over(self.batch)
        self.batch = batch

    @property
    def has_messages(self):
        """Whether something was taken or waits that was not handed out."""
        return (self.batch.rows > 0 or self.rest.chain.count > 0
                or counts_of(&self.mailbox.queue).messages > 0)

    def _on_statuses(self, list statuses):
        """Of the subclass: account for statuses; returns what ended."""
        raise NotImplementedError

    @property
    def waiting(self):
        """Messages that wait in the mailbox or are on their way to it."""
        return self.state.count_waiting(counts_of(&self.mailbox.queue).messages)
