"""Outbound: the bytes waiting to leave, and the only code that calls send()."""

from cpython.buffer cimport PyBuffer_Release
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.errno cimport EAGAIN, EINTR, errno
from libc.string cimport memcpy

from jetsync._core.csrc cimport (
    JET_OK, jet_buf_append, jet_buf_clear, jet_buf_consume, jet_buf_free, jet_buf_init, jet_buf_len,
    jet_buf_ptr, jet_encode_answer, jet_encode_ping, jet_encode_pong, jet_encode_pub,
    jet_encode_retract, jet_encode_sift, span_of, span_of_bytes,
)
from jetsync._core.encoding cimport (
    data_span, encode_sub, encode_unsub, raise_status, text_bytes, text_span, too_large,
)
from jetsync._core.kept cimport kept_add, kept_arrived, kept_free, kept_init
from jetsync._core.sync cimport (
    acquire, deadline_of, free_lock, gate_free, gate_init, gate_open, gate_wait, gate_wait_nogil, leaf_free,
    leaf_init, lock_leaf, lock_nogil, monotonic, new_lock, try_lock, unlock, unlock_leaf,
)

from jetsync.errors import ConnectionClosedError, OutboundFullError


cdef extern from "unistd.h" nogil:
    int usleep(unsigned int microseconds)


cdef extern from "sys/socket.h" nogil:
    int MSG_NOSIGNAL
    int MSG_DONTWAIT
    int SHUT_RDWR
    ssize_t send(int fd, const void *bytes, size_t n, int flags)
    int shutdown(int fd, int how)


cdef enum:
    # With so much waiting a publisher waits too. More would help nobody: the kernel's buffers come
    # on top, and what has left the caches by then is slower to send.
    HIGH_WATER = 2 << 20
    # Memory kept in an empty buffer: what steady traffic needs. Getting it anew each time would
    # cost more, in page faults, than to send it.
    KEEP = 2 * HIGH_WATER
    PIECE = 256 * 1024      # what is encrypted at a time
    LITTLE = 16 * 1024      # what is sent with the GIL held
    # Where message follows message, to wake the writer for a few costs more than to send them: after
    # so many since it last woke up it waits for more, in microseconds. Answers to single requests
    # never come to so many, so they leave at once. For what is kept nobody waits: that may take
    # longer.
    MANY = 16
    GATHER = 50
    GATHER_KEPT = 200
    DRAINED = 0
    BLOCKED = 1
    BROKEN = 2


cdef bint has_room(Outbound out, size_t size) noexcept nogil:
    """Whether so many bytes may be put in now. The caller holds `lock`."""
    cdef size_t waiting = jet_buf_len(&out.pending)
    if out.fd < 0:
        return waiting + size <= out.offline_limit
    return waiting == 0 or waiting + size <= out.high_water


cdef int put_message(Outbound out, subject, data, reply, bytes header, bint wake,
                     double deadline=-1, uint64_t link=0) except -1:
    """Append one PUB or HPUB to `out`. This is what every publish of single messages does. It waits
    for room up to `deadline` (monotonic; negative: none), but never longer than `write_timeout`."""
    cdef Py_buffer view
    cdef jet_span subject_span, payload
    cdef jet_span reply_span = span_of(NULL, 0)
    cdef bytes kept = text_span(subject, "subject", &subject_span)
    cdef bytes kept_too = None if reply is None else text_span(reply, "reply", &reply_span)
    try:
        data_span(data, &view, &payload)
        return out.publish_spans(subject_span, reply_span, span_of_bytes(header), payload, wake,
                                 deadline, link)
    finally:
        PyBuffer_Release(&view)


cdef class Outbound:
    """Bytes waiting to leave. Thread-safe; frames go out whole and in the order they were put in."""

    def __cinit__(self, size_t high_water=HIGH_WATER, size_t offline_limit=8 << 20,
                  double write_timeout=10.0):
        self.fd = -1
        self.high_water = high_water
        self.offline_limit = offline_limit
        self.write_timeout = write_timeout
        self.max_payload = 1 << 20
        self.links = 1  # 0 stands for any
        self.windows = ()
        self.retracted = ()
        jet_buf_init(&self.pending)
        jet_buf_init(&self.sending)
        jet_buf_init(&self.plain)
        kept_init(&self.kept)
        leaf_init(&self.lock)
        self.send_lock = new_lock()
        self.turn = new_lock()
        gate_init(&self.work)
        gate_init(&self.room)

    def __dealloc__(self):
        jet_buf_free(&self.pending)
        jet_buf_free(&self.sending)
        jet_buf_free(&self.plain)
        kept_free(&self.kept)
        gate_free(&self.work)
        gate_free(&self.room)
        free_lock(self.turn)
        free_lock(self.send_lock)
        leaf_free(&self.lock)

    # -- putting in ------------------------------------------------------------------------------

    cdef int _enter(self, size_t size, double deadline) except -1:
        """Take `lock` when there is room for `size` more bytes; wait for room up to `deadline`, at
        most for `write_timeout`."""
        lock_leaf(&self.lock)
        if not self.closed and has_room(self, size):
            return 0
        unlock_leaf(&self.lock)
        return self._await_room(size, deadline)

    cdef int _await_room(self, size_t size, double deadline) except -1:
        cdef double began = monotonic()
        if deadline < 0 or deadline > began + self.write_timeout:
            deadline = began + self.write_timeout
        cdef bint in_turn = False
        try:
            while True:
                lock_leaf(&self.lock)
                if self.closed:
                    unlock_leaf(&self.lock)
                    raise ConnectionClosedError("the connection is closed; make a new one")
                if has_room(self, size):
                    return 0
                if self.fd < 0:
                    unlock_leaf(&self.lock)
                    raise OutboundFullError(
                        f"not connected, and the reconnect buffer of {self.offline_limit} bytes "
                        "is full; wait for the connection or raise reconnect_buffer_size"
                    )
                if in_turn:
                    if not gate_wait(&self.room, &self.lock, deadline):
                        self._refuse(monotonic() - began)
                else:
                    unlock_leaf(&self.lock)
                    in_turn = acquire(self.turn, deadline)
                    if not in_turn:
                        self._refuse(monotonic() - began)
        finally:
            if in_turn:
                unlock(self.turn)

    cdef int _refuse(self, double waited) except -1:
        raise OutboundFullError(
            f"the outbound buffer ({self.high_water} bytes) stayed full for {waited:.3g} s, all the "
            "time that there was: the server takes data too slowly"
        )

    cdef int _leave(self, jet_status status, uint64_t messages, size_t before,
                    bint wake) except -1:
        """Count what was appended, wake the writer, release `lock`."""
        if status == JET_OK:
            self.msgs += messages
            self.bytes_ += jet_buf_len(&self.pending) - before
            if wake:
                gate_open(&self.work)
        unlock_leaf(&self.lock)
        return 0

    cdef int publish_spans(self, jet_span subject, jet_span reply, jet_span header,
                           jet_span payload, bint wake, double deadline=-1,
                           uint64_t link=0) except -1:
        """Append one PUB or HPUB; on link number `link` only, or with 0 on any and without one."""
        cdef jet_status status
        cdef size_t size = header.len + payload.len
        cdef size_t before
        if size > self.max_payload:
            too_large(size, self.max_payload)
        self._enter(size, deadline)
        if link and (self.fd < 0 or link != self.links):
            unlock_leaf(&self.lock)
            raise OutboundFullError("the link broke before the message could leave on it")
        before = jet_buf_len(&self.pending)
        status = jet_encode_pub(&self.pending, subject, reply, header, payload)
        if wake:
            self.hurried = True
        self._leave(status, 1, before, wake)
        return raise_status(status, subject)

    cdef int answer_spans(self, jet_span subject, jet_span reply, jet_span payload,
                          bint keep=False, double deadline=-1) except -1:
        """Publish without headers to a subject that is only kept from breaking the framing.

        With `keep` it may be received twice: it is sent again over the next link, unless it is
        known by then that it arrived (`arrived`)."""
        cdef jet_status status
        cdef size_t before
        cdef int wanted = 0
        self._enter(subject.len + payload.len, deadline)
        before = jet_buf_len(&self.pending)
        status = jet_encode_answer(&self.pending, subject, reply, payload)
        if keep and status == JET_OK:
            wanted = self._keep(before)
        else:
            self.hurried = True
        self._leave(status, 1, before, True)
        if wanted and self.on_kept is not None:
            self.on_kept(wanted)
        return raise_status(status, subject)

    cdef int append_frames(self, jet_span frames, uint64_t count, bint keep=False,
                           bint wake=True, double deadline=-1) except -1:
        """Append frames that were encoded and checked elsewhere; `keep` as in answer_spans. With
        `wake=False` the caller has to call `send_now`."""
        cdef jet_status status
        cdef size_t before
        cdef int wanted = 0
        self._enter(frames.len, deadline)
        before = jet_buf_len(&self.pending)
        status = jet_buf_append(&self.pending, frames.ptr, frames.len)
        if keep and status == JET_OK:
            wanted = self._keep(before)
        elif wake:
            self.hurried = True
        self._leave(status, count, before, wake)
        if wanted and self.on_kept is not None:
            self.on_kept(wanted)
        return raise_status(status, span_of(NULL, 0))

    cdef bint offer_frames(self, jet_span frames, uint64_t count, uint64_t link,
                           bint wake) noexcept:
        """Append frames if that is possible now; never waits. Returns whether they were taken.

        They are taken on link number `link` only; with 0 on any link and without one. With
        `wake=False` the caller has to call `send_now`."""
        cdef jet_status status
        cdef size_t before
        cdef bint taken = False
        lock_leaf(&self.lock)
        if (not self.closed and (link == 0 or (self.fd >= 0 and link == self.links))
                and has_room(self, frames.len)):
            before = jet_buf_len(&self.pending)
            status = jet_buf_append(&self.pending, frames.ptr, frames.len)
            taken = status == JET_OK
            if taken:
                self.msgs += count
                self.bytes_ += jet_buf_len(&self.pending) - before
                if wake:
                    self.hurried = True
                    gate_open(&self.work)
        unlock_leaf(&self.lock)
        return taken

    cdef uint64_t link_now(self) noexcept:
        """The number of the link, 0 while there is none."""
        cdef uint64_t number
        lock_leaf(&self.lock)
        number = self.links if self.fd >= 0 else 0
        unlock_leaf(&self.lock)
        return number

    def enter_window(self, bytes reply_prefix not None, window):
        """Know a publish window from now on: what is left of its messages when a link breaks is
        dropped, since it sends them again itself. `window` is one that other publishes must not
        overtake, or None."""
        self.retracted = (*self.retracted, reply_prefix)
        if window is not None:
            self.windows = (*self.windows, window)

    def leave_window(self, bytes reply_prefix not None, window):
        """Forget a publish window."""
        self.retracted = tuple([p for p in self.retracted if p != reply_prefix])
        self.windows = tuple([w for w in self.windows if w is not window])

    cdef void _retract(self) noexcept:
        """Drop the waiting messages of publish windows. The caller holds the GIL, not `lock`."""
        cdef tuple prefixes = self.retracted
        cdef Py_ssize_t i
        cdef jet_span span
        for i in range(len(prefixes)):
            span = span_of_bytes(<bytes>prefixes[i])
            lock_leaf(&self.lock)
            jet_encode_retract(&self.pending, span)
            unlock_leaf(&self.lock)

    cdef int _keep(self, size_t before) noexcept nogil:
        """Keep what was appended behind `before`. The caller holds `lock`, and tells `on_kept` what
        is returned when it does no longer, if that is not 0."""
        return kept_add(&self.kept, jet_buf_ptr(&self.pending) + before,
                        jet_buf_len(&self.pending) - before)

    cdef void pong(self) noexcept nogil:
        """Answer a PING. Called by the reader: never waits, takes the leaf lock only. A peer that
        does not take what is there already gets no more of it."""
        lock_leaf(&self.lock)
        if not self.closed and jet_buf_len(&self.pending) <= self.high_water:
            jet_encode_pong(&self.pending)
            gate_open(&self.work)
        unlock_leaf(&self.lock)

    def publish(self, subject, data=b"", reply=None, bytes header=b"", bint wake=True,
                seconds=None, uint64_t link=0):
        """Append one PUB or HPUB. With `wake=False` the caller has to call `send_now`. Waits for room
        up to `seconds`, at most for `write_timeout`.

        With `link` it leaves on the link of this number only (`links`), else raises OutboundFullError."""
        put_message(self, subject, data, reply, header, wake, deadline_of(seconds), link)

    def ask(self, subject, reply, bytes data not None, seconds=None):
        """Append one PUB to a subject that may hold wildcards, as the server's own API has them
        (the filter at the end of a consumer's creation). The caller has to call `send_now`. Waits
        for room up to `seconds`, at most for `write_timeout`."""
        cdef bytes subject_bytes = text_bytes(subject, "subject")
        cdef bytes reply_bytes = text_bytes(reply, "reply")
        if len(data) > <Py_ssize_t>self.max_payload:
            too_large(len(data), self.max_payload)
        self.answer_spans(span_of_bytes(subject_bytes), span_of_bytes(reply_bytes),
                          span_of_bytes(data), False, deadline_of(seconds))

    def subscribe(self, subject, queue, uint64_t sid):
        """Append a SUB line. While there is no link nothing is appended: a new link begins with the
        SUB lines of all subscriptions (`attach`)."""
        if not self._append_line(encode_sub(subject, queue, sid)):
            raise ConnectionClosedError("the connection is closed; make a new one")

    def unsubscribe(self, uint64_t sid, uint64_t max_messages=0):
        """Append an UNSUB line, if there is a link."""
        self._append_line(encode_unsub(sid, max_messages))

    cdef bint _append_line(self, bytes line) except -1:
        """Append a line that means nothing to another link, if there is one. False: closed."""
        cdef jet_status status = JET_OK
        cdef jet_span span = span_of_bytes(line)
        lock_leaf(&self.lock)
        cdef bint closed = self.closed
        if not closed and self.fd >= 0:
            status = jet_buf_append(&self.pending, span.ptr, span.len)
            gate_open(&self.work)
        unlock_leaf(&self.lock)
        raise_status(status, span_of(NULL, 0))
        return not closed

    def ping(self):
        """Append a PING; returns which one it is on this link, beginning with 1; 0: not any more."""
        cdef uint64_t number = 0
        lock_leaf(&self.lock)
        if not self.closed and jet_encode_ping(&self.pending) == JET_OK:
            self.pings += 1
            number = self.pings
            gate_open(&self.work)
        unlock_leaf(&self.lock)
        return number

    def kept_so_far(self):
        """A point in what is kept, for `arrived`."""
        lock_leaf(&self.lock)
        cdef uint64_t end = self.kept.end
        unlock_leaf(&self.lock)
        return end

    def arrived(self, uint64_t point, bint last):
        """Forget what was kept up to `point`: the server has it. Returns whether there is more. If
        there is none and this was the `last` question, the next one kept wants a new one."""
        lock_leaf(&self.lock)
        cdef bint more = kept_arrived(&self.kept, point, last)
        unlock_leaf(&self.lock)
        return more

    # -- sending ---------------------------------------------------------------------------------

    cdef int _drain(self, int flags) noexcept nogil:
        """Send until nothing is left. The caller holds send_lock."""
        cdef ssize_t sent
        cdef jet_buf swap
        cdef int fd
        cdef bint filtered = self.filtered
        cdef bint asked = False  # a filter may owe bytes of its own: it is asked at least once
        cdef jet_buf *next = &self.plain if filtered else &self.sending
        while True:
            lock_leaf(&self.lock)
            fd = self.fd
            if fd >= 0 and jet_buf_len(next) == 0:
                # Where much is pending, as much follows: its memory is used again, not given back.
                jet_buf_clear(next, max(<size_t>KEEP, 4 * jet_buf_len(&self.pending)))
                swap = next[0]
                next[0] = self.pending
                self.pending = swap
                gate_open(&self.room)
            unlock_leaf(&self.lock)
            if filtered and fd >= 0 and jet_buf_len(&self.sending) == 0:
                if jet_buf_len(&self.plain) or not asked:
                    asked = True
                    with gil:
                        if not self._encrypt():
                            return BROKEN
            if fd < 0 or jet_buf_len(&self.sending) == 0:
                return DRAINED
            sent = send(fd, jet_buf_ptr(&self.sending), jet_buf_len(&self.sending),
                        flags | MSG_NOSIGNAL)
            if sent >= 0:
                jet_buf_consume(&self.sending, <size_t>sent)
            elif errno == EINTR:
                continue
            elif errno == EAGAIN:
                return BLOCKED
            else:
                return BROKEN

    cdef bint _encrypt(self) noexcept:
        """Fill `sending` from the next piece of `plain`. Returns whether that worked."""
        cdef size_t n = min(jet_buf_len(&self.plain), <size_t>PIECE)
        cdef bytes piece
        try:
            piece = self.filter.encrypt((<const char *>jet_buf_ptr(&self.plain))[:n])
        except Exception:
            return False  # the state of the link is beyond repair
        jet_buf_consume(&self.plain, n)
        jet_buf_clear(&self.sending, KEEP)
        return jet_buf_append(&self.sending, <const char *>piece, len(piece)) == JET_OK

    def send_now(self):
        """Send what is pending from this thread if nobody else is sending; else leave it to them.

        Never waits for the network: what does not fit into the socket is the writer's. A little is
        sent with the GIL held: where another thread computes, giving it up for some microseconds
        would mean to wait for it a whole switch interval, on top of the one for the answer.

        On a filtered link the writer sends all: a filter is Python code, which Ctrl-C in this thread
        may break off with what it has encrypted neither sent nor forgotten.
        """
        cdef int state = BLOCKED
        if try_lock(self.send_lock):
            if self.filtered:
                pass
            elif jet_buf_len(&self.pending) <= LITTLE:
                state = self._drain(MSG_DONTWAIT)
            else:
                with nogil:
                    state = self._drain(MSG_DONTWAIT)
            unlock(self.send_lock)
        if state != DRAINED:
            self.nudge()

    def nudge(self):
        """Wake the writer, even when it is about to sleep."""
        lock_leaf(&self.lock)
        self.nudged = True
        gate_open(&self.work)
        unlock_leaf(&self.lock)

    def pump(self):
        """Send until `close()`. Blocks without the GIL; this is the whole life of the writer."""
        cdef unsigned int gather
        cdef uint64_t seen = 0
        with nogil:
            while True:
                lock_leaf(&self.lock)
                while not (self.closed or self.nudged
                           or (self.fd >= 0 and jet_buf_len(&self.pending))):
                    gate_wait_nogil(&self.work, &self.lock)
                gather = 0
                if not self.nudged and self.msgs - seen > MANY:
                    gather = GATHER if self.hurried else GATHER_KEPT
                seen = self.msgs
                self.nudged = self.hurried = False
                if self.closed:
                    unlock_leaf(&self.lock)
                    break
                unlock_leaf(&self.lock)
                if gather:
                    usleep(gather)
                lock_nogil(self.send_lock)
                if self._drain(0) == BROKEN:
                    # The reader declares the link dead; we only make sure that it notices.
                    self._give_up()
                unlock(self.send_lock)

    cdef void _forget(self) noexcept nogil:
        """Drop what was half sent. The caller holds send_lock."""
        jet_buf_clear(&self.sending, KEEP)
        jet_buf_clear(&self.plain, KEEP)

    cdef void _give_up(self) noexcept nogil:
        self._forget()
        lock_leaf(&self.lock)
        if self.fd >= 0:
            shutdown(self.fd, SHUT_RDWR)
        self.fd = -1
        gate_open(&self.room)
        unlock_leaf(&self.lock)

    # -- link ------------------------------------------------------------------------------------

    def attach(self, int fd, bytes first not None, size_t max_payload, filter=None):
        """Send over `fd` from now on: `first` (the replayed subscriptions), then what was kept,
        then what is pending.

        All of it goes through `filter.encrypt(bytes) -> bytes` if there is a filter (TLS). Returns
        how many waiting messages this server would refuse, breaking the link: they are dropped.
        """
        cdef jet_status status
        cdef size_t refused
        cdef jet_buf *into
        with nogil:
            lock_nogil(self.send_lock)
        self._forget()
        self.filter = filter
        self.filtered = filter is not None
        into = &self.plain if self.filtered else &self.sending
        status = jet_buf_append(into, <const char *>first, len(first))
        lock_leaf(&self.lock)
        if status == JET_OK:
            status = jet_buf_append(into, jet_buf_ptr(&self.kept.frames),
                                    jet_buf_len(&self.kept.frames))
        refused = jet_encode_sift(&self.pending, max_payload)
        self.pings = 0
        self.links += 1
        self.fd = fd
        self.max_payload = max_payload
        self.nudged = True
        gate_open(&self.work)
        unlock_leaf(&self.lock)
        unlock(self.send_lock)
        raise_status(status, span_of(NULL, 0))
        return refused

    def detach(self):
        """Stop using the descriptor (shut down before, so that a blocked send ends). What was half
        sent is dropped: sending it again could store it twice. Whole pending frames stay, but those
        of publish windows, which would overtake what the window sends again."""
        lock_leaf(&self.lock)
        self.fd = -1
        gate_open(&self.room)
        unlock_leaf(&self.lock)
        with nogil:
            lock_nogil(self.send_lock)
        self._forget()
        unlock(self.send_lock)
        self._retract()

    def abandon(self):
        """Refuse everything in a forked child, whatever threads of the parent were doing to this:
        what they may have been half way through changing is forgotten, and no old lock is taken."""
        leaf_init(&self.lock)
        gate_init(&self.work)
        gate_init(&self.room)
        self.send_lock = new_lock()
        self.turn = new_lock()
        jet_buf_init(&self.pending)
        jet_buf_init(&self.sending)
        jet_buf_init(&self.plain)
        kept_init(&self.kept)
        self.fd = -1
        self.closed = True

    def close(self):
        """Drop everything, end the writer, refuse everything from now on. Safe to repeat."""
        lock_leaf(&self.lock)
        self.closed = True
        jet_buf_clear(&self.pending, 0)
        kept_free(&self.kept)
        gate_open(&self.work)
        gate_open(&self.room)
        unlock_leaf(&self.lock)

    @property
    def pending_bytes(self):
        """Bytes not yet taken by a sender."""
        lock_leaf(&self.lock)
        cdef size_t n = jet_buf_len(&self.pending)
        unlock_leaf(&self.lock)
        return n

    @property
    def messages(self):
        """Messages put in so far."""
        return self.msgs

    @property
    def bytes(self):
        """Bytes of messages put in so far, framing included."""
        return self.bytes_

    def peek(self):
        """A copy of the pending bytes."""
        cdef size_t n = self.pending_bytes
        # Made before the lock is taken: no Python API is called while a leaf lock is held.
        cdef bytearray copy = bytearray(n)
        lock_leaf(&self.lock)
        n = min(n, jet_buf_len(&self.pending))
        if n:
            memcpy(PyByteArray_AS_STRING(copy), jet_buf_ptr(&self.pending), n)
        unlock_leaf(&self.lock)
        return PyBytes_FromStringAndSize(PyByteArray_AS_STRING(copy), n)
