# cython: nonecheck=True
"""PullLoop: the loop of an endless stream of pulled messages; a subclass handles exceptional
events."""

# Without `begin` the attributes are None, which every use checks (nonecheck).
from libc.stddef cimport size_t

from jetsync._core.csrc cimport (
    JET_OK, jet_chain_last, jet_jsack, jet_jsack_parse, jet_record,
)
from jetsync._core.batch cimport MsgBatch
from jetsync._core.gil cimport is_dear
from jetsync._core.link cimport link_counts
from jetsync._core.mailbox cimport counts_of
from jetsync._core.pulls cimport PullOptions
from jetsync._core.sync cimport monotonic

from jetsync._core.pulls import DEFAULT_EXPIRES
from jetsync._deadline import Deadline

cdef double default_expires = DEFAULT_EXPIRES
cdef double GATHER = 0.001  # seconds for which a message that came waits for others at most
cdef object FOREVER = Deadline(None)
cdef object AT_ONCE = Deadline(0.0)


# Outcomes of a turn of `_deliver`.
SETTLED = 3  # as RESTS, and the next check is still due when `_next_check` said last
MORE = 2     # it was a full turn, and there may be more
RESTS = 1    # all that came was given, and nothing has to be checked before more comes
CHECK = 0    # nothing more is there; whether that is the end, or something is wrong, has to be checked
cdef object settled = SETTLED, more = MORE, rests = RESTS, check = CHECK


cdef class PullLoop(PrefetchBuffer):
    """Takes messages from an inbox into the prefetch buffer and sends the next pull in time.

    Its steady state costs no Python frame but one for each check of the connection. The subclass
    handles exceptional events, by the methods that raise NotImplementedError here. Times are
    seconds.
    """

    def __init__(self, port, source, Window window not None, *, double expires, double heartbeat,
                 dict group not None, stop_after):
        self._port, self._source, self._window = port, source, window
        self.nc = port.connection
        self._expires, self._heartbeat, self.group = expires, heartbeat, group
        self.is_lasting = source.is_lasting
        self._left = stop_after  # messages that may still come into the prefetch buffer
        self._is_open = True
        self.each = 1

    # -- taking ----------------------------------------------------------------------------------

    def _in_turn(self, step, argument):
        """Do a step of taking, unless the connection has ended or another thread is inside."""
        self._port.check()
        result = self._run(step, argument)
        if self._stopped and self._is_open:
            self.stop()  # asked for while this thread was inside
        return result

    def _take(self, deadline):
        """The next message, or None: time is up, or the stream is over."""
        return self._in_turn(self._take_inside, deadline)

    def _slow_next(self):
        """The next message when none is prefetched, a pull is due, or the stream was stopped."""
        msg = self._in_turn(self._take_inside, FOREVER)
        if msg is not None:
            return msg
        if self._error is not None:
            raise self._error
        raise StopIteration

    def _deliver(self, callback, report, int most):
        """Call back with up to `most` messages that are there. Does not wait. Returns `SETTLED`,
        `MORE`, `RESTS` or `CHECK`. An exception of the callback, of any kind, goes to `report`, with the
        message.

        While another thread ends the stream there are none.
        """
        cdef Msg msg
        cdef int n
        for n in range(most):
            msg = self.ready()
            if msg is None:
                if n and self.come_to_rest():
                    return settled if self.is_told else rests
                msg = self.poll()
                if msg is None:
                    return check
            try:
                callback(msg)
            except BaseException as error:  # user code may raise anything
                report(error, msg)
        if not self.chain.count and self.come_to_rest():
            return settled if self.is_told else rests
        return more

    cdef bint come_to_rest(self) except -1:
        """After messages were given: whether no more is there, and nothing else has happened than
        that they came, so that nothing is to be checked. Pulls then if a pull is due. `is_told` says then
        whether the next check is still due when it was."""
        cdef PullLine inbox
        cdef link_counts there
        if not self._try_enter():
            return False
        try:
            inbox = self._inbox
            if (self.chain.count or not self.is_lasting or inbox is None or inbox.has_link_news
                    or inbox.batch.rows or self._stopped or self._draining or not self._is_open
                    or self._error is not None or self.left == 0):
                return False
            there = counts_of(&inbox.mailbox.queue)
            if there.messages or there.finished:
                return False
            self.begin_waiting()
            self.refill(0)
            inbox.outbound.send_held()
            if self.gather(inbox, self._window.max_messages, -1):
                return False
            # It may have found that the link is new, or that there is no room for the pull.
            if not self._is_settled or self._inbox is not inbox:
                return False
            self.is_told = (self.told_inbox is inbox and inbox.state.not_before == 0
                            and self.plan_check(inbox, there.last_put))
            return True
        finally:
            self._leave()

    cdef bint plan_check(self, PullLine inbox, double last_put) noexcept:
        """Work out when to check the inbox; returns whether that is what was worked out last."""
        cdef double patience
        cdef double at = inbox.state.due(monotonic(), last_put, &patience)
        cdef double since = inbox.state.since
        cdef bint same = (at == self.told_at and patience == self.told_patience
                          and since == self.told_since)
        self.told_at, self.told_since, self.told_patience = at, since, patience
        return same

    def _next_check(self):
        """When to check the inbox although nothing came, as `(at, since, patience)`: at a point of
        time, or `patience` seconds after the last sign of life, counted from `since` at the earliest
        (0: only at that point)."""
        self.told_inbox = self._inbox
        self.plan_check(self.told_inbox, counts_of(&self.told_inbox.mailbox.queue).last_put)
        return self.told_at, self.told_since, self.told_patience

    cdef Msg poll(self):
        """The next message, without waiting; when there is none, pull if a pull is due."""
        cdef Msg msg
        if not self._try_enter():
            return None
        try:
            if self.nc._refusal is not None:
                self._port.check()
            msg = self.take_inside(AT_ONCE)
            if msg is None:
                self.refill(0)  # what came may have ended a pull
        finally:
            self._leave()
        if self._stopped and self._is_open:
            self.stop()  # asked for while this thread was inside
        return msg

    def _take_inside(self, deadline):
        return self.take_inside(deadline)

    cdef Msg take_inside(self, deadline):
        if not self.chain.count:
            self._load(self._window.max_messages, deadline)
        if self._stopped or not self.chain.count:
            return None
        msg = self.make()
        self.refill(0)
        return msg

    def _batch_inside(self, wanted):
        """A batch of up to `limit` messages that are there; waits for the first one."""
        limit, deadline = wanted
        batch = self._empty_batch()
        if not self.chain.count and not self._stopped:
            self._load(limit, deadline)
        if self.chain.count and not self._stopped:
            self._move_into(batch, limit)
        # Taking made room: pull before the caller starts its work.
        self.refill(0)
        return batch

    def _load(self, int64_t limit, deadline):
        """Fill the prefetch buffer with what came; wait for the first message. It stays empty when
        time is up or the stream is over."""
        cdef PullLine inbox
        cdef object at = deadline.at
        cdef double until = -1 if at is None else at
        cdef size_t count
        cdef bint ending
        self.begin_waiting()
        if self.left >= 0:
            limit = min(limit, self.left)
        while True:
            ending = self._stopped or self._draining or self._error is not None or not self._is_open
            if (ending or limit <= 0) and self._is_over():
                return
            inbox = self._inbox if self.is_lasting else self._open(deadline)
            if inbox is None:
                return
            if not self._is_settled or inbox.has_link_news:
                self.refill(until)
            if self.is_lasting and self.gather(inbox, limit, until):
                if not counts_of(&inbox.mailbox.queue).messages:
                    continue  # it may have been woken, to look at all of this again
            ends = inbox.collect(
                1 if not self.is_lasting and self._source.takes_singly else limit,
                0 if self._draining or 0 <= until <= monotonic() else until, 1,
            )
            count = inbox.batch.rows
            self._came = self._came or count > 0
            if not self.is_lasting and not self._source.accept(inbox, 0):
                inbox.release()
                count = 0
            for ended in ends:
                self._on_end(inbox, ended)
            if count:
                self.receive(inbox, count)
                return
            self._is_settled = False
            if not ends:
                self._check(inbox)
            if self._is_interrupted or 0 <= until <= monotonic():
                self._is_interrupted = False
                return

    cdef int receive(self, PullLine inbox, size_t count) except -1:
        """Move the batch of the inbox into the prefetch buffer."""
        cdef MsgBatch batch = inbox.batch
        cdef jet_record r
        cdef jet_jsack ack
        self._window.is_whole = False
        cdef double now = monotonic()
        if self.came_at:
            self.pace += (count / max(now - self.came_at, 1e-6) - self.pace) / 4
        self.came_at = now
        self.more = 0
        if jet_chain_last(&batch.chain, &r) and jet_jsack_parse(r.reply, &ack) == JET_OK:
            self.more = ack.num_pending
        if self._window.may_grow:
            self.given_at = now
            self.given = count
            self._window.note_took(count, now - self.begun)
            self.each = batch.chain.bytes // count
        self.begun = 0
        # From here on an interrupt finds them in the prefetch buffer.
        self._take_over(batch)
        return 0

    cdef int begin_waiting(self) except -1:
        """No message is left: note it, once, for the size of the window."""
        if self.given:
            self.tell_window()
        elif not self.begun:
            self.begun = monotonic()
        return 0

    cdef int tell_window(self) except -1:
        """All messages were handed out: adapt the window to the speed of the user, once."""
        cdef double now = monotonic()
        cdef PullLine inbox = self._inbox
        if inbox is None:
            self.begun = now
            return 0
        self._window.note_slowed(self.given, now - self.given_at)
        if self.more and not counts_of(&inbox.mailbox.queue).messages:
            self._window.note_starved(inbox.least_rtt, self.each)
        self.begun, self.given = self.given_at, 0
        return 0

    cdef bint gather(self, PullLine inbox, int64_t limit, double until) except -1:
        """While messages keep coming, wait for as many as come in a moment: to be woken costs as much
        for one message as for a hundred. Returns whether it waited.

        Never for more than the server has ready and can send: half of what is asked for, and a
        quarter of what may be unacknowledged. What was acknowledged leaves before. Nor beside a
        thread that computes: the time for which waits may keep the GIL is what is short there."""
        cdef int64_t least = min(<int64_t>(self.pace * GATHER), self.more, limit,
                                 inbox.state.count_waiting(0) // 2, self._window.most // 4)
        cdef double now
        if least <= 1 or self._draining or is_dear():
            return False
        now = monotonic()
        if 0 <= until <= now:
            return False
        inbox.outbound.send_held()
        if not inbox.mailbox.gather(<size_t>least,
                                    now + GATHER if until < 0 else min(now + GATHER, until)):
            self.pace = 0  # they do not
        return True

    # -- pulling ---------------------------------------------------------------------------------

    def _refill(self):
        """Send a pull when one is due. Does not wait."""
        self.refill(0)

    cdef int refill(self, double deadline) except -1:
        """Send a pull when the buffer and what is on its way have sunk to the threshold; else see
        to it that the stream checks again when they have. Waits up to `deadline` for room in the
        outbound buffer (negative: as long as it may, 0: not at all); without room it is tried again
        when no message is prefetched."""
        cdef PullLine inbox = self._inbox
        cdef Window window = self._window
        cdef link_counts there
        cdef int64_t count, threshold, left = self.left
        cdef int64_t buffered_bytes = 0, waiting_bytes = 0
        cdef double now, expires
        self._set_threshold(0)
        self._is_settled = False
        if self._draining or self._stopped or self._error is not None or inbox is None:
            return 0
        now = monotonic()
        if inbox.closed or now < inbox.state.not_before:
            return 0
        if inbox.has_link_news and inbox.lost_link():
            self._source.on_new_link(inbox)
        if not inbox.is_linked or inbox.closed:
            return 0
        there = counts_of(&inbox.mailbox.queue)
        if window.max_bytes is not None:
            buffered_bytes = self.chain.bytes
            waiting_bytes = inbox.state.count_waiting_bytes(there.bytes)
            if left >= 0:
                left = max(0, left - <int64_t>there.messages)
        count = window.ask(inbox.state.count_waiting(there.messages), self.chain.count,
                           waiting_bytes, buffered_bytes, left, &threshold)
        self._is_settled = True
        if not count:
            self._set_threshold(threshold)
            return 0
        expires = inbox.state.length(self._expires, now, self._expires == default_expires)
        self._came = False
        self._is_settled = inbox.send(
            PullOptions(
                count, expires, window.size_of(count, waiting_bytes + buffered_bytes),
                inbox.state.heartbeat_of(self._heartbeat, expires, now), **self.group,
            ),
            False, None, now if deadline == 0 else deadline,
        ) > 0
        return 0

    # -- the subclass implements -----------------------------------------------------------------

    def _open(self, deadline):
        """The inbox to take from; None when there is none in time."""
        raise NotImplementedError

    def _is_over(self):
        """Whether nothing more will be handed out."""
        raise NotImplementedError

    def _empty_batch(self):
        """A batch to move messages into."""
        raise NotImplementedError

    def _on_end(self, inbox, ended):
        """A pull has ended early."""
        raise NotImplementedError

    def _check(self, inbox):
        """Nothing came: check the link, the server and the inbox."""
        raise NotImplementedError

    def stop(self):
        """End now. Any thread."""
        raise NotImplementedError
