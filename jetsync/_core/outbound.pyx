"""Outbound: the bytes waiting to leave, and the only code that calls send()."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_CheckExact, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_CheckExact
from libc.errno cimport EAGAIN, EINTR, errno
from libc.string cimport memcpy

from jetsync._core.csrc cimport (
    JET_ERR_HEADER, JET_ERR_LINE, JET_ERR_MEMORY, JET_ERR_SUBJECT, JET_OK, jet_buf_append,
    jet_buf_clear, jet_buf_consume, jet_buf_free, jet_buf_init, jet_buf_len, jet_buf_ptr,
    jet_encode_answer, jet_encode_ping, jet_encode_pong, jet_encode_pub, jet_encode_sift,
    jet_encode_sub, jet_encode_unsub, jet_header_append, span_of, span_of_bytes,
)
from jetsync._core.sync cimport (
    acquire, free_lock, gate_free, gate_init, gate_open, gate_wait, gate_wait_nogil, leaf_free,
    leaf_init, lock_leaf, lock_nogil, monotonic, new_lock, try_lock, unlock, unlock_leaf,
)

from jetsync.errors import (
    ConfigError, ConnectionClosedError, MaxPayloadError, OutboundFullError,
)


cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    void *PyUnicode_1BYTE_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)


cdef extern from "unistd.h" nogil:
    int usleep(unsigned int microseconds)


cdef extern from "sys/socket.h" nogil:
    int MSG_NOSIGNAL
    int MSG_DONTWAIT
    int SHUT_RDWR
    ssize_t send(int fd, const void *bytes, size_t n, int flags)
    int shutdown(int fd, int how)


# Memory kept in an empty buffer: enough for steady traffic, little when idle.
cdef enum:
    KEEP = 1 << 20
    PIECE = 256 * 1024      # what is encrypted at a time
    KEPT_MORE = 1 << 20     # with so much more of what may not have arrived, find out at once
    KEPT_MOST = 8 << 20     # more is not kept
    LITTLE = 16 * 1024      # what is sent with the GIL held
    # Where message follows message, to wake the writer for a few costs more than to send them: after
    # so many since it last woke up it waits for more, in microseconds. Answers to single requests
    # never come to so many, so they leave at once.
    MANY = 16
    GATHER = 50
    DRAINED = 0
    BLOCKED = 1
    BROKEN = 2


cdef int raise_status(jet_status status, jet_span subject) except -1:
    """Turn a refusal of the encoder into its error. Nothing was appended."""
    if status == JET_OK:
        return 0
    shown = (<const char *>subject.ptr)[:subject.len].decode("utf-8", "replace") if subject.len else ""
    if status == JET_ERR_SUBJECT:
        raise ConfigError(
            f"subject, reply or queue is not valid near {shown!r}: it must not be empty, hold "
            "spaces, control characters or empty tokens, nor wildcards when publishing"
        )
    if status == JET_ERR_LINE:
        raise ConfigError(
            "subject and reply together make a control line over 4096 bytes, which the server "
            "refuses; use shorter ones"
        )
    if status == JET_ERR_HEADER:
        raise ConfigError("a header name or value holds characters that would break framing")
    if status == JET_ERR_MEMORY:
        raise MemoryError("no memory for the outbound buffer")
    raise ConfigError(f"message cannot be encoded (status {<int>status})")


cdef bytes text_bytes(object value, str what):
    """A subject or name as bytes; surrogate escapes give back what came from the wire."""
    if not isinstance(value, str):
        raise ConfigError(f"{what} must be a str, not {type(value).__name__}")
    try:
        return (<str>value).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ConfigError(f"{what} holds a lone surrogate, which has no UTF-8 form") from None


cdef bytes text_span(object value, str what, jet_span *span):
    """Let `span` be the bytes of a subject or name. Returns what has to live as long as the span,
    or None when that is the str itself: nothing is copied then."""
    cdef bytes kept = None
    if PyUnicode_CheckExact(value) and PyUnicode_IS_COMPACT_ASCII(value):
        span[0] = span_of(PyUnicode_1BYTE_DATA(value), PyUnicode_GET_LENGTH(value))
    else:
        kept = text_bytes(value, what)
        span[0] = span_of_bytes(kept)
    return kept


cdef int put_message(Outbound out, subject, data, reply, bytes header, bint wake) except -1:
    """Append one PUB or HPUB to `out`. This is what every publish of single messages does."""
    cdef Py_buffer view
    cdef jet_span subject_span
    cdef jet_span reply_span = span_of(NULL, 0)
    cdef bytes kept = text_span(subject, "subject", &subject_span)
    cdef bytes kept_too = None if reply is None else text_span(reply, "reply", &reply_span)
    if PyBytes_CheckExact(data):
        return out.publish_spans(subject_span, reply_span, span_of_bytes(header),
                                 span_of_bytes(<bytes>data), wake)
    if isinstance(data, str):
        raise ConfigError("data must be bytes; encode text first, for example text.encode()")
    try:
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    except TypeError:
        raise ConfigError(f"data must be bytes-like, not {type(data).__name__}") from None
    except BufferError:
        raise ConfigError("data must be a contiguous buffer") from None
    try:
        return out.publish_spans(subject_span, reply_span, span_of_bytes(header),
                                 span_of(view.buf, view.len), wake)
    finally:
        PyBuffer_Release(&view)


def encode_headers(headers) -> bytes:
    """Return the header block of a mapping (name to value or list of values); b"" for nothing."""
    cdef jet_status status
    cdef jet_buf block
    cdef bytes key, text
    cdef jet_span none = span_of(NULL, 0)
    if not headers:
        return b""
    if hasattr(headers, "to_dict"):
        headers = headers.to_dict()
    if not hasattr(headers, "items"):
        raise ConfigError(f"headers must be a mapping, not {type(headers).__name__}")
    jet_buf_init(&block)
    try:
        raise_status(jet_buf_append(&block, b"NATS/1.0\r\n", 10), none)
        for name, values in headers.items():
            key = text_bytes(name, "a header name")
            if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
                values = (values,)
            for value in values:
                if isinstance(value, bytes):
                    text = value
                elif isinstance(value, str):
                    text = text_bytes(value, f"header {name!r}")
                else:
                    raise ConfigError(
                        f"header {name!r} must be str or bytes, not {type(value).__name__}"
                    )
                status = jet_header_append(&block, span_of_bytes(key), span_of_bytes(text))
                if status == JET_ERR_HEADER:
                    raise ConfigError(
                        f"header {name!r} is not valid: a name has visible ASCII without colon, a "
                        "value no CR, LF or NUL"
                    )
                raise_status(status, none)
        raise_status(jet_buf_append(&block, b"\r\n", 2), none)
        return (<const char *>jet_buf_ptr(&block))[:jet_buf_len(&block)]
    finally:
        jet_buf_free(&block)


cdef class Outbound:
    """Bytes waiting to leave. Thread-safe; frames go out whole and in the order they were put in."""

    def __cinit__(self, size_t high_water=16 << 20, size_t offline_limit=8 << 20,
                  double write_timeout=10.0):
        self.fd = -1
        self.high_water = high_water
        self.offline_limit = offline_limit
        self.write_timeout = write_timeout
        self.max_payload = 1 << 20
        jet_buf_init(&self.pending)
        jet_buf_init(&self.sending)
        jet_buf_init(&self.plain)
        jet_buf_init(&self.kept)
        leaf_init(&self.lock)
        self.send_lock = new_lock()
        self.turn = new_lock()
        gate_init(&self.work)
        gate_init(&self.room)

    def __dealloc__(self):
        jet_buf_free(&self.pending)
        jet_buf_free(&self.sending)
        jet_buf_free(&self.plain)
        jet_buf_free(&self.kept)
        gate_free(&self.work)
        gate_free(&self.room)
        free_lock(self.turn)
        free_lock(self.send_lock)
        leaf_free(&self.lock)

    # -- putting in ------------------------------------------------------------------------------

    cdef int _enter(self, size_t size) except -1:
        """Take `lock` when there is room for `size` more bytes; wait for room up to write_timeout."""
        cdef double deadline = -1
        cdef size_t waiting
        cdef bint in_turn = False
        try:
            while True:
                lock_leaf(&self.lock)
                if self.closed:
                    unlock_leaf(&self.lock)
                    raise ConnectionClosedError("the connection is closed; make a new one")
                waiting = jet_buf_len(&self.pending)
                if self.fd < 0:
                    if waiting + size <= self.offline_limit:
                        return 0
                    unlock_leaf(&self.lock)
                    raise OutboundFullError(
                        f"not connected, and the reconnect buffer of {self.offline_limit} bytes "
                        "is full; wait for the connection or raise reconnect_buffer_size"
                    )
                if waiting == 0 or waiting + size <= self.high_water:
                    return 0
                if deadline < 0:
                    deadline = monotonic() + self.write_timeout
                if in_turn:
                    if not gate_wait(&self.room, &self.lock, deadline):
                        self._refuse()
                else:
                    unlock_leaf(&self.lock)
                    in_turn = acquire(self.turn, deadline)
                    if not in_turn:
                        self._refuse()
        finally:
            if in_turn:
                unlock(self.turn)

    cdef int _refuse(self) except -1:
        raise OutboundFullError(
            f"the outbound buffer ({self.high_water} bytes) stayed full for "
            f"{self.write_timeout:g} s: the server takes data too slowly"
        )

    cdef int _too_large(self, size_t size) except -1:
        raise MaxPayloadError(
            f"message of {size} bytes (headers and payload) is over the server's limit of "
            f"{self.max_payload}; make it smaller or raise max_payload on the server"
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
                           jet_span payload, bint wake) except -1:
        cdef jet_status status
        cdef size_t size = header.len + payload.len
        cdef size_t before
        if size > self.max_payload:
            self._too_large(size)
        self._enter(size)
        before = jet_buf_len(&self.pending)
        status = jet_encode_pub(&self.pending, subject, reply, header, payload)
        self._leave(status, 1, before, wake)
        return raise_status(status, subject)

    cdef int answer_spans(self, jet_span subject, jet_span reply, jet_span payload,
                          bint keep=False) except -1:
        """Publish without headers to a subject that is only kept from breaking the framing.

        With `keep` it may be received twice: it is sent again over the next link, unless it is
        known by then that it arrived (`arrived`)."""
        cdef jet_status status
        cdef size_t before
        cdef int wanted = 0
        self._enter(subject.len + payload.len)
        before = jet_buf_len(&self.pending)
        status = jet_encode_answer(&self.pending, subject, reply, payload)
        if keep and status == JET_OK:
            wanted = self._keep(before)
        self._leave(status, 1, before, True)
        if wanted and self.on_kept is not None:
            self.on_kept(wanted)
        return raise_status(status, subject)

    cdef int append_frames(self, jet_span frames, uint64_t count, bint keep=False) except -1:
        """Append frames that were encoded and checked elsewhere; `keep` as in answer_spans."""
        cdef jet_status status
        cdef size_t before
        cdef int wanted = 0
        self._enter(frames.len)
        before = jet_buf_len(&self.pending)
        status = jet_buf_append(&self.pending, frames.ptr, frames.len)
        if keep and status == JET_OK:
            wanted = self._keep(before)
        self._leave(status, count, before, True)
        if wanted and self.on_kept is not None:
            self.on_kept(wanted)
        return raise_status(status, span_of(NULL, 0))

    cdef int _keep(self, size_t before) noexcept nogil:
        """Copy what was appended behind `before`. The caller holds `lock`.

        Returns 1 when this is the first and nobody is finding out yet whether such arrive, 2 when
        it has become so much that it should be found out now, else 0."""
        cdef size_t n = jet_buf_len(&self.pending) - before
        cdef bint first = self.kept_mark == 0
        if jet_buf_len(&self.kept) + n > KEPT_MOST:
            # The peer takes all of this and answers no PING.
            jet_buf_clear(&self.kept, KEEP)
            self.kept_mark = KEPT_MORE
        if jet_buf_append(&self.kept, jet_buf_ptr(&self.pending) + before, n) == JET_OK:
            self.kept_end += n
        if not first and jet_buf_len(&self.kept) < self.kept_mark:
            return 0
        self.kept_mark = jet_buf_len(&self.kept) + KEPT_MORE
        return 1 if first else 2

    cdef void pong(self) noexcept nogil:
        """Answer a PING. Called by the reader: never waits, takes the leaf lock only. A peer that
        does not take what is there already gets no more of it."""
        lock_leaf(&self.lock)
        if not self.closed and jet_buf_len(&self.pending) <= self.high_water:
            jet_encode_pong(&self.pending)
            gate_open(&self.work)
        unlock_leaf(&self.lock)

    def publish(self, subject, data=b"", reply=None, bytes header=b"", bint wake=True):
        """Append one PUB or HPUB. With `wake=False` the caller has to call `send_now`."""
        put_message(self, subject, data, reply, header, wake)

    def ask(self, subject, reply, bytes data not None):
        """Append one PUB to a subject that may hold wildcards, as the server's own API has them
        (the filter at the end of a consumer's creation). The caller has to call `send_now`."""
        cdef bytes subject_bytes = text_bytes(subject, "subject")
        cdef bytes reply_bytes = text_bytes(reply, "reply")
        if len(data) > <Py_ssize_t>self.max_payload:
            self._too_large(len(data))
        self.answer_spans(span_of_bytes(subject_bytes), span_of_bytes(reply_bytes),
                          span_of_bytes(data))

    def subscribe(self, subject, queue, uint64_t sid):
        """Append a SUB line."""
        cdef bytes subject_bytes = text_bytes(subject, "subject")
        cdef bytes queue_bytes = b"" if queue is None else text_bytes(queue, "queue")
        cdef jet_status status = JET_OK
        lock_leaf(&self.lock)
        if self.closed:
            unlock_leaf(&self.lock)
            raise ConnectionClosedError("the connection is closed; make a new one")
        status = jet_encode_sub(&self.pending, span_of_bytes(subject_bytes),
                                span_of_bytes(queue_bytes), sid)
        gate_open(&self.work)
        unlock_leaf(&self.lock)
        raise_status(status, span_of_bytes(subject_bytes))

    def unsubscribe(self, uint64_t sid, uint64_t max_messages=0):
        """Append an UNSUB line."""
        lock_leaf(&self.lock)
        if not self.closed:
            jet_encode_unsub(&self.pending, sid, max_messages)
            gate_open(&self.work)
        unlock_leaf(&self.lock)

    def ping(self):
        """Append a PING."""
        lock_leaf(&self.lock)
        if not self.closed:
            jet_encode_ping(&self.pending)
            gate_open(&self.work)
        unlock_leaf(&self.lock)

    def kept_so_far(self):
        """A point in what is kept, for `arrived`."""
        lock_leaf(&self.lock)
        cdef uint64_t end = self.kept_end
        unlock_leaf(&self.lock)
        return end

    def arrived(self, uint64_t point, bint last):
        """Forget what was kept up to `point`: the server has it. Returns whether there is more. If
        there is none and this was the `last` question, the next one kept wants a new one."""
        cdef size_t n
        lock_leaf(&self.lock)
        n = jet_buf_len(&self.kept)
        if n > self.kept_end - point:
            jet_buf_consume(&self.kept, n - <size_t>(self.kept_end - point))
            n = <size_t>(self.kept_end - point)
        if n == 0:
            jet_buf_clear(&self.kept, KEEP)
        if self.kept_mark:
            self.kept_mark = 0 if last and n == 0 else n + KEPT_MORE
        unlock_leaf(&self.lock)
        return n > 0

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
        """
        cdef int state = BLOCKED
        if try_lock(self.send_lock):
            if jet_buf_len(&self.pending) <= LITTLE:
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
        cdef bint gather
        cdef uint64_t seen = 0
        with nogil:
            while True:
                lock_leaf(&self.lock)
                while not (self.closed or self.nudged
                           or (self.fd >= 0 and jet_buf_len(&self.pending))):
                    gate_wait_nogil(&self.work, &self.lock)
                gather = not self.nudged and self.msgs - seen > MANY
                seen = self.msgs
                self.nudged = False
                if self.closed:
                    unlock_leaf(&self.lock)
                    break
                unlock_leaf(&self.lock)
                if gather:
                    usleep(GATHER)
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
            status = jet_buf_append(into, jet_buf_ptr(&self.kept), jet_buf_len(&self.kept))
        refused = jet_encode_sift(&self.pending, max_payload)
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
        sent is dropped: sending it again could store it twice. Whole pending frames stay."""
        lock_leaf(&self.lock)
        self.fd = -1
        gate_open(&self.room)
        unlock_leaf(&self.lock)
        with nogil:
            lock_nogil(self.send_lock)
        self._forget()
        unlock(self.send_lock)

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
        jet_buf_init(&self.kept)
        self.fd = -1
        self.closed = True

    def close(self):
        """Drop everything, end the writer, refuse everything from now on. Safe to repeat."""
        lock_leaf(&self.lock)
        self.closed = True
        jet_buf_clear(&self.pending, 0)
        jet_buf_clear(&self.kept, 0)
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
