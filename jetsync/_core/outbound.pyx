"""Outbound: the bytes waiting to leave. Binds the C library's link_outbound."""

from cpython.buffer cimport PyBuffer_Release
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport uint8_t

from jetsync._counted import counted
from jetsync._core.csrc cimport JET_OK, jet_buf_append, jet_status, span_of, span_of_bytes
from jetsync._core.encoding cimport (
    data_span, encode_sub, encode_unsub, raise_status, text_bytes, text_span, too_large,
)
from jetsync._core.link cimport (
    LINK_REPLY, LINK_BUSY, LINK_CLOSED, LINK_FILTER_BROKEN, LINK_FILTER_DONE, LINK_FILTER_LAST, LINK_FRAMES, LINK_FULL, LINK_GONE, LINK_OFFLINE, LINK_OK, LINK_PUB,
    LINK_SIGNAL, LINK_WOKEN, link_count, link_encode, link_filtered, link_outbound_ask, link_outbound_attach,
    link_outbound_begin_send, link_outbound_close, link_outbound_detach, link_outbound_expect,
    link_outbound_forget,
    link_outbound_free, link_outbound_holds, link_outbound_init, link_outbound_is_lost,
    link_outbound_join, link_outbound_kept, link_outbound_line, link_outbound_link,
    link_outbound_link_to_leave_on, link_outbound_nudge, link_outbound_offer,
    link_outbound_peek, link_outbound_pending, link_outbound_ping, link_outbound_pump,
    link_outbound_put, link_outbound_put_promised, link_outbound_reset, link_outbound_retract,
    link_outbound_send,
    link_outbound_waiting, link_outbound_withdraw, link_result, link_wakeup_sleep,
    link_websocket_encode,
)
from jetsync._core.sync cimport deadline_of, monotonic
from jetsync._core.websocket cimport WebSocket, is_native

from jetsync.errors import ConnectionClosedError, OutboundFullError


cdef enum:
    # A publisher waits while this many bytes are pending. A larger buffer does not help: the kernel
    # has buffers of its own, and bytes that have left the CPU caches are slower to send.
    HIGH_WATER = 2 << 20


cdef int put_message(Outbound out, subject, data, reply, bytes header, bint wake,
                     double deadline, uint64_t link) except -1:
    """Append one PUB or HPUB to `out`. This is what every publish of single messages does. It waits
    for room up to `deadline` (monotonic; negative: none), but never longer than `write_timeout`."""
    cdef Py_buffer view
    cdef jet_span subject_span, payload
    cdef jet_span reply_span = span_of(NULL, 0)
    cdef bytes subject_owner = text_span(subject, "subject", &subject_span)
    cdef bytes reply_owner = None if reply is None else text_span(reply, "reply", &reply_span)
    try:
        data_span(data, &view, &payload)
        return out.publish_spans(subject_span, reply_span, span_of_bytes(header), payload, wake,
                                 deadline, link)
    finally:
        PyBuffer_Release(&view)


cdef link_filtered call_filter(void *context, const uint8_t *data, size_t n,
                               jet_buf *out) noexcept with gil:
    """Encode for the C library by a filter of Python code."""
    try:
        return <link_filtered>(<Outbound>context)._encode((<const char *>data)[:n] if n else b"", out)
    except BaseException:
        return LINK_FILTER_BROKEN


cdef class Outbound:
    """Bytes waiting to leave. Thread-safe; frames go out whole and in the order they were put in.

    Threads that wait for room get it in the order in which they came.
    """

    def __cinit__(self, size_t high_water=HIGH_WATER, size_t offline_limit=8 << 20,
                  double write_timeout=10.0, size_t max_control_line=4096):
        link_outbound_init(&self.link, high_water, offline_limit)
        self.link.max_line = max_control_line
        self.write_timeout = write_timeout
        self.max_payload = 1 << 20
        self.windows = ()
        self.retracted = ()

    def __dealloc__(self):
        link_outbound_free(&self.link)

    # -- putting in ------------------------------------------------------------------------------

    cdef int _put(self, link_put *p, double deadline) except -1:
        """Put in when there is room; wait for it up to `deadline`, at most for `write_timeout`."""
        p.is_first = False
        cdef int result = link_outbound_put(&self.link, p, False)
        if result != LINK_OK:
            self._put_slowly(p, deadline, result)
        if p.is_first and self.on_resend is not None:
            self.on_resend()
        return 0

    cdef int _put_slowly(self, link_put *p, double deadline, int result) except -1:
        cdef link_waiter waiter
        cdef double began = monotonic()
        if deadline < 0 or deadline > began + self.write_timeout:
            deadline = began + self.write_timeout
        if result == LINK_BUSY:
            with nogil:
                result = link_outbound_put(&self.link, p, True)
        while result == LINK_FULL:
            link_outbound_join(&self.link, &waiter, p)
            if not self._sleep(&waiter, deadline):
                break
            result = link_outbound_put_promised(&self.link, p, &waiter)
        return 0 if result == LINK_OK else self._refuse(result, p.subject, monotonic() - began)

    cdef bint _sleep(self, link_waiter *waiter, double deadline) except -1:
        """Stand in line until there is room; False when time is up. A signal handler may raise."""
        cdef link_result got
        while True:
            with nogil:
                got = link_wakeup_sleep(&waiter.wakeup, deadline)
            if got == LINK_WOKEN:
                return True
            if got != LINK_SIGNAL or link_outbound_is_lost(&self.link, waiter):
                link_outbound_withdraw(&self.link, waiter)
                return False
            try:
                PyErr_CheckSignals()
            except BaseException:
                link_outbound_withdraw(&self.link, waiter)
                raise
            if link_outbound_is_lost(&self.link, waiter):  # the handler forked; this is the child
                raise ConnectionClosedError("the connection belongs to the parent process")

    cdef int _refuse(self, int result, jet_span subject, double waited) except -1:
        if result == LINK_CLOSED:
            raise ConnectionClosedError("the connection is closed; make a new one")
        if result == LINK_GONE:
            raise OutboundFullError("the link broke before the message could leave on it")
        if result == LINK_OFFLINE:
            raise OutboundFullError(
                f"not connected, and the reconnect buffer of "
                f"{counted(self.link.offline_limit, 'byte')} is full; wait for the connection or raise reconnect_buffer_size"
            )
        if result == LINK_FULL:
            raise OutboundFullError(
                f"the outbound buffer ({counted(self.link.high_water, 'byte')}) stayed full for "
                f"{waited:.3g} s, all the time that there was: the server takes data too slowly"
            )
        return raise_status(<jet_status>result, subject)

    cdef int publish_spans(self, jet_span subject, jet_span reply, jet_span header,
                           jet_span payload, bint wake, double deadline,
                           uint64_t link) except -1:
        """Append one PUB or HPUB, for link number `link` only, or with 0 for any."""
        cdef link_put p
        cdef size_t size = header.len + payload.len
        if size > self.max_payload:
            too_large(size, self.max_payload)
        p.kind = LINK_PUB
        p.subject = subject
        p.reply = reply
        p.header = header
        p.payload = payload
        p.share = NULL
        p.messages = 1
        p.link = link
        p.resend = False
        p.wake = wake
        return self._put(&p, deadline)

    cdef int reply_spans(self, jet_span subject, jet_span reply, jet_span payload,
                          bint resend=False, double deadline=-1, uint64_t link=0,
                          bint wake=True) except -1:
        """Publish without headers to a reply subject, which is only checked for safe framing.

        With `resend` it may be received twice: it is sent again over the next link, unless it is
        known by then that it arrived (`ask_what_arrived`)."""
        cdef link_put p
        p.kind = LINK_REPLY
        p.subject = subject
        p.reply = reply
        p.header = span_of(NULL, 0)
        p.payload = payload
        p.share = NULL
        p.messages = 1
        p.link = link
        p.resend = resend
        p.wake = wake
        return self._put(&p, deadline)

    cdef int append_frames(self, jet_span frames, uint64_t count, bint resend=False,
                           bint wake=True, double deadline=-1) except -1:
        """Append frames that were encoded and checked elsewhere; `resend` as in reply_spans. With
        `wake=False` the caller has to call `send_now`."""
        cdef link_put p
        p.kind = LINK_FRAMES
        p.subject = p.reply = p.header = span_of(NULL, 0)
        p.payload = frames
        p.share = NULL
        p.messages = count
        p.link = 0
        p.resend = resend
        p.wake = wake
        return self._put(&p, deadline)

    cdef bint offer_frames(self, jet_span frames, uint64_t count, uint64_t link,
                           bint wake, link_share *share=NULL) noexcept:
        """Append frames if that is possible now; never waits. Returns whether they were taken. A
        single frame that lies in `share` is not copied.

        They are taken for link number `link` only; with 0 for any. With `wake=False` the caller has
        to call `send_now`."""
        cdef link_put p
        p.kind = LINK_FRAMES
        p.subject = p.reply = p.header = span_of(NULL, 0)
        p.payload = frames
        p.share = share
        p.messages = count
        p.link = link
        p.resend = False
        p.wake = wake
        return link_outbound_offer(&self.link, &p) == LINK_OK

    cdef uint64_t link_number(self) noexcept:
        """The number of the last link that there was; the first has number 2."""
        return link_count(&self.link.links)

    cdef uint64_t link_now(self) noexcept:
        """The number of the link, 0 while there is none."""
        return link_outbound_link(&self.link)

    def enter_window(self, bytes reply_prefix not None, window):
        """Know a publish window from now on: what is left of its messages when a link breaks is
        dropped, since it sends them again itself. `window` is one that other publishes must not
        overtake, or None."""
        self.retracted = (*self.retracted, reply_prefix)
        if window is not None:
            self.windows = (*self.windows, window)

    def leave_window(self, bytes reply_prefix not None, window):
        """Forget a publish window."""
        self.retracted = tuple(filter(reply_prefix.__ne__, self.retracted))
        self.windows = tuple(filter(lambda one: one is not window, self.windows))

    cdef int _retract(self) except -1:
        """Drop the messages of publish windows that waited for the last link."""
        cdef bytes prefix
        cdef jet_span span
        for prefix in self.retracted:
            span = span_of_bytes(prefix)
            with nogil:
                link_outbound_retract(&self.link, span)
        return 0

    def publish(self, subject, data=b"", reply=None, bytes header=b"", bint wake=True,
                seconds=None, uint64_t link=0):
        """Append one PUB or HPUB. With `wake=False` the caller has to call `send_now`. Waits for room
        up to `seconds`, at most for `write_timeout`.

        With `link` it leaves on the link of this number only, or waits for it (`link_to_leave_on`),
        else raises OutboundFullError."""
        put_message(self, subject, data, reply, header, wake,
                    -1 if seconds is None else deadline_of(seconds), link)

    def publish_frames(self, bytes frames not None, uint64_t count, seconds=None):
        """Append `count` messages that are encoded and checked already. The caller has to call
        `send_now`. Waits for room up to `seconds`, at most for `write_timeout`."""
        self.append_frames(span_of_bytes(frames), count, False, False, deadline_of(seconds))

    def ask(self, subject, reply, bytes data not None, seconds=None, uint64_t link=0):
        """Append one PUB to a subject that may hold wildcards, as the server's own API has them
        (the filter at the end of a consumer's creation). The caller has to call `send_now`. Waits
        for room up to `seconds`, at most for `write_timeout`. `link` as for `publish`."""
        cdef bytes subject_bytes = text_bytes(subject, "subject")
        cdef bytes reply_bytes = text_bytes(reply, "reply")
        if len(data) > <Py_ssize_t>self.max_payload:
            too_large(len(data), self.max_payload)
        self.reply_spans(span_of_bytes(subject_bytes), span_of_bytes(reply_bytes),
                          span_of_bytes(data), False, deadline_of(seconds), link)

    def subscribe(self, subject, queue, uint64_t sid, dict lines=None, numbers=None):
        """Append a SUB line. While there is no link, and none is expected, nothing is appended: a
        new link begins with the SUB lines of all subscriptions (`attach`).

        With `lines` the id becomes its last key, and the next of `numbers` its value, in one step
        with the line, which the GIL guards: the keys are in the order of the lines on the wire."""
        cdef bytes line = encode_sub(subject, queue, sid, self.link.max_line)
        if lines is not None:
            lines.pop(sid, None)
            lines[sid] = next(numbers)
        try:
            if not self._append_line(line):
                raise ConnectionClosedError("the connection is closed; make a new one")
        except BaseException:
            if lines is not None:
                lines.pop(sid, None)
            raise

    def unsubscribe(self, uint64_t sid, uint64_t max_messages=0):
        """Append an UNSUB line, if there is a link or one is expected."""
        self._append_line(encode_unsub(sid, max_messages))

    cdef bint _append_line(self, bytes line) except -1:
        """Append a line that means nothing to another link. False: closed."""
        cdef int result = link_outbound_line(&self.link, span_of_bytes(line))
        if result < 0:
            raise_status(<jet_status>result, span_of(NULL, 0))
        return result != LINK_CLOSED

    def ping(self, bint wake=True):
        """Append a PING; returns which one it is on this link, beginning with 1; 0: no link. With
        `wake=False` the caller has to call `send_now`."""
        return link_outbound_ping(&self.link, wake)

    def ask_what_arrived(self):
        """Send a PING whose PONG empties the resend buffer, unless one is on its way; the PONG needs no
        Python. Returns whether to ask again later: not when the buffer is empty. Then the next frame
        that is put in calls `on_resend` again."""
        return link_outbound_ask(&self.link)

    @property
    def kept_bytes(self):
        """Bytes in the resend buffer: they were put in, and are not known to have arrived."""
        return link_outbound_kept(&self.link)

    # -- sending ---------------------------------------------------------------------------------

    def send_now(self):
        """Send the pending bytes from this thread, unless another thread is sending: that one sends
        them.

        Never waits for the network: what does not fit into the socket is the writer's, and so is
        what other threads put in meanwhile. A little is sent with the GIL held: where another thread
        computes, giving it up for some microseconds would mean to wait for it a whole switch
        interval, on top of the one for the answer. With a filter of Python code
        the writer sends all.
        """
        cdef int how = link_outbound_begin_send(&self.link)
        if how == 1:
            link_outbound_send(&self.link)
        elif how == 2:
            with nogil:
                link_outbound_send(&self.link)

    cdef int send_held(self) except -1:
        """Send what the writer holds: the caller is about to wait."""
        if link_outbound_holds(&self.link):
            self.send_now()
        return 0

    def nudge(self):
        """Wake the writer, even when it is about to sleep."""
        link_outbound_nudge(&self.link)

    def pump(self):
        """Send until `close()`. Blocks without the GIL; this is the whole life of the writer."""
        with nogil:
            link_outbound_pump(&self.link)

    cdef int _encode(self, bytes data, jet_buf *out) except -1:
        cdef bytes piece = self.filter.encode(data)
        cdef jet_span span = span_of_bytes(piece)
        if jet_buf_append(out, span.ptr, span.len) != JET_OK:
            return LINK_FILTER_BROKEN
        return LINK_FILTER_LAST if self.filter.ended else LINK_FILTER_DONE

    # -- link ------------------------------------------------------------------------------------

    def expect(self):
        """A link is coming: SUB and UNSUB lines are kept for it from here on, in order with what is
        published. To be called before its subscriptions are gathered for `attach`."""
        link_outbound_expect(&self.link)

    def attach(self, int fd, bytes first not None, size_t max_payload, filter=None):
        """Send over `fd` from now on: `first` (the replayed subscriptions), then what was kept,
        then what is pending.

        All of it goes through `filter.encode(bytes) -> bytes` if there is a filter (TLS, WebSocket). Returns
        how many waiting messages this server would refuse, breaking the link: they are dropped.
        """
        cdef ptrdiff_t refused
        cdef jet_span lines = span_of_bytes(first)
        cdef link_encode encode = NULL
        cdef void *context = <void *>self
        cdef bint writer_only = False
        if is_native(filter):
            encode = link_websocket_encode
            context = &(<WebSocket>filter).link
            (<WebSocket>filter).link.outbound = &self.link
        elif filter is not None:
            encode = call_filter
            writer_only = True
        self.filter = filter
        self.max_payload = max_payload
        with nogil:
            refused = link_outbound_attach(&self.link, fd, lines, max_payload, encode, context,
                                           writer_only)
        if refused < 0:
            raise_status(<jet_status>refused, span_of(NULL, 0))
        return refused

    def detach(self):
        """Stop using the descriptor (shut down before, so that a blocked send ends). What was half
        sent is dropped: sending it again could store it twice. Whole pending frames stay, but those
        of publish windows, which would overtake what the window sends again. What is put in from
        now on waits for the next link."""
        with nogil:
            link_outbound_detach(&self.link)
            link_outbound_forget(&self.link)
        self._retract()

    def abandon(self):
        """Refuse everything in a forked child, whatever threads of the parent were doing to this:
        what they may have been half way through changing is forgotten, and no old lock is taken."""
        link_outbound_reset(&self.link)

    def close(self):
        """Drop everything, end the writer, refuse everything from now on. Safe to repeat."""
        link_outbound_close(&self.link)

    @property
    def high_water(self):
        """Bytes; with so many pending on a link a publisher waits."""
        return self.link.high_water

    @property
    def max_control_line(self):
        """The longest line, in bytes and without its end, that is put in for a message or SUB."""
        return self.link.max_line

    @property
    def offline_limit(self):
        """Bytes that may be pending while there is no link."""
        return self.link.offline_limit

    @property
    def links(self):
        """The number of the last link that there was; the first has number 2."""
        return self.link_number()

    @property
    def is_linked(self):
        """Whether there is a link. Nothing else says so: what is put in without one waits for the
        next, and what was put in before leaves on the link or not at all."""
        return self.link_now() != 0

    @property
    def link_to_leave_on(self):
        """The number of the link, or of the next one: what is put in now leaves on it."""
        return link_outbound_link_to_leave_on(&self.link)

    @property
    def pings(self):
        """PINGs put in for this link."""
        return link_count(&self.link.pings)

    @property
    def pongs(self):
        """PONGs that came on this link, never more than `pings`."""
        return link_count(&self.link.pongs)

    @property
    def pending_bytes(self):
        """Bytes not yet taken by a sender."""
        return link_outbound_pending(&self.link)

    @property
    def waiting(self):
        """Calls that wait for room."""
        return link_outbound_waiting(&self.link)

    @property
    def messages(self):
        """Messages put in so far."""
        return link_count(&self.link.msgs)

    @property
    def bytes(self):
        """Bytes of messages put in so far, framing included."""
        return link_count(&self.link.bytes)

    def peek(self):
        """A copy of the pending bytes."""
        cdef bytearray copy = bytearray(link_outbound_pending(&self.link))
        cdef char *to = PyByteArray_AS_STRING(copy)
        return PyBytes_FromStringAndSize(to, link_outbound_peek(&self.link, <uint8_t *>to, len(copy)))
