"""Inbound: from the socket to the mailboxes, without the GIL."""

from libc.stdint cimport uint8_t
from libc.errno cimport EAGAIN, EINTR, errno
from libc.string cimport memcmp, memcpy

from jetsync._core.csrc cimport (
    JET_ERR_ARGS, JET_ERR_CRLF, JET_ERR_LINE, JET_ERR_MEMORY, JET_ERR_OP, JET_ERR_SIZE, JET_OP_ERR,
    JET_OP_INFO, JET_OP_MSG, JET_OP_PING, JET_OP_PONG, bytes_of, jet_buf_append, jet_buf_clear,
    jet_buf_commit, jet_buf_consume, jet_buf_free, jet_buf_init, jet_buf_len, jet_buf_ptr,
    jet_buf_reserve, jet_parser_init, jet_parser_next, jet_record, jet_slots_add, jet_slots_free,
    jet_slots_get, jet_slots_init, jet_slots_remove, jet_token_read, jet_token_write, span_of,
    JET_TOKEN_MAX,
)
from jetsync._core.mailbox cimport PUT_LAST, PUT_NOTHING, Mailbox, Put, box_has_enough, box_put
from jetsync._core.seat cimport Seat
from jetsync._core.sync cimport (
    gate_open, jetsync_add, jetsync_count, leaf_free, leaf_init, lock_leaf, monotonic, unlock_leaf,
)

from os import urandom


cdef extern from "sys/socket.h" nogil:
    int MSG_DONTWAIT
    ssize_t recv(int fd, void *bytes, size_t n, int flags)


cdef enum:
    RECV = 256 * 1024

# What feed() and pump() report. Everything else was dealt with on the way.
cdef enum:
    NOTHING = 0
    INFO = 1
    ERR = 2
    PONG = 3
    SLOW = 4
    EOF_ = 5
    BAD = 6
    LAST = 7

EVENT_INFO, EVENT_ERR, EVENT_PONG, EVENT_SLOW, EVENT_EOF, EVENT_BAD = INFO, ERR, PONG, SLOW, EOF_, BAD
EVENT_LAST = LAST

cdef dict BAD_TEXT = {
    JET_ERR_OP: "a line with an unknown verb",
    JET_ERR_ARGS: "a message line with wrong arguments",
    JET_ERR_SIZE: "a message with an impossible size",
    JET_ERR_LINE: "a line that is too long or not ended by CRLF",
    JET_ERR_CRLF: "a payload not followed by CRLF",
    JET_ERR_MEMORY: "more data than there is memory for",
}


cdef int leave_seat(Mailbox mailbox) except -1:
    """Nothing comes for this mailbox any more: its waiters have nothing to read."""
    if mailbox is not None:
        mailbox.seat = None
    return 0


cdef class Inbound(Seat):
    """Routes received messages to mailboxes. One thread feeds or pumps, any thread adds and removes.

    The one that pumps may lend its seat to a caller who waits for a message.

    `max_size` bounds the size of a message that is taken from the server.
    """

    def __cinit__(self, Outbound outbound not None, size_t max_size=64 << 20):
        leaf_init(&self.route_lock)
        jet_slots_init(&self.subs)
        jet_slots_init(&self.replies)
        jet_buf_init(&self.buf)
        jet_buf_init(&self.raw)
        jet_parser_init(&self.parser, max_size)
        cdef bytes secret = urandom(sizeof(self.key))
        memcpy(&self.key, <const char *>secret, sizeof(self.key))
        self.outbound = outbound
        self.boxes = {}
        self.reply_boxes = {}
        self.reply_prefix = b""

    def __dealloc__(self):
        jet_buf_free(&self.buf)
        jet_buf_free(&self.raw)
        jet_slots_free(&self.subs)
        jet_slots_free(&self.replies)
        leaf_free(&self.route_lock)

    # -- routes ----------------------------------------------------------------------------------

    def add(self, Mailbox mailbox not None):
        """Give a mailbox a subscription id; returns it."""
        cdef Box *box = &mailbox.box
        cdef uint64_t sid
        with nogil:
            lock_leaf(&self.route_lock)
            sid = jet_slots_add(&self.subs, box)
            box.sid = sid
            unlock_leaf(&self.route_lock)
        if sid == 0:
            raise MemoryError("no room for another subscription")
        try:
            self.boxes[sid] = mailbox
        except BaseException:
            self.remove(sid)
            raise
        mailbox.seat = self
        return sid

    def remove(self, uint64_t sid):
        """Forget a subscription id; messages that still come for it are dropped."""
        with nogil:
            lock_leaf(&self.route_lock)
            jet_slots_remove(&self.subs, sid)
            unlock_leaf(&self.route_lock)
        leave_seat(self.boxes.pop(sid, None))

    def get(self, sid):
        """Return the mailbox of a subscription id, or None."""
        return self.boxes.get(sid)

    def set_reply_route(self, bytes prefix not None, uint64_t sid):
        """Route messages of subscription `sid` whose subject is `prefix` + token by that token."""
        cdef const char *ptr = prefix
        cdef size_t n = len(prefix)
        with nogil:
            lock_leaf(&self.route_lock)
            self.reply_prefix_ptr = ptr
            self.reply_prefix_len = n
            self.reply_sid = sid
            unlock_leaf(&self.route_lock)
        self.reply_prefix = prefix  # keeps the bytes alive that the reader compares with

    def add_reply(self, Mailbox mailbox not None):
        """Give a mailbox the number of a reply token, which no other request ever had."""
        cdef Box *box = &mailbox.box
        cdef uint64_t token
        with nogil:
            lock_leaf(&self.route_lock)
            token = jet_slots_add(&self.replies, box)
            unlock_leaf(&self.route_lock)
        if token == 0:
            raise MemoryError("no room for another request")
        try:
            self.reply_boxes[token] = mailbox
        except BaseException:
            self.remove_reply(token)
            raise
        mailbox.seat = self
        return token

    def reply_token(self, uint64_t token):
        """The text behind the prefix of the reply route that leads to a number. It holds 64 bits
        that only those know who were shown it: no other text leads there."""
        cdef uint8_t text[JET_TOKEN_MAX]
        cdef size_t n = jet_token_write(&self.key, token, text)
        return (<const char *>text)[:n].decode("ascii")

    def remove_reply(self, uint64_t token):
        """Forget the number of a token; a late answer is counted in `unmatched`."""
        with nogil:
            lock_leaf(&self.route_lock)
            jet_slots_remove(&self.replies, token)
            unlock_leaf(&self.route_lock)
        leave_seat(self.reply_boxes.pop(token, None))

    def pending_replies(self):
        """The mailboxes of requests that still wait."""
        return list(self.reply_boxes.values())

    cdef Box *_route(self, jet_frame *f) noexcept nogil:
        cdef uint64_t token
        cdef jet_span rest
        cdef size_t n
        if f.sid == self.reply_sid and self.reply_sid:
            n = self.reply_prefix_len
            if f.subject.len <= n or memcmp(f.subject.ptr, self.reply_prefix_ptr, n):
                return NULL
            rest = span_of(f.subject.ptr + n, f.subject.len - n)
            # The token may be followed by "-" and whatever its owner wants to tell apart.
            n = jet_token_read(&self.key, rest, &token)
            if n == 0 or (n < rest.len and rest.ptr[n] != c'-'):
                return NULL
            return <Box *>jet_slots_get(&self.replies, token)
        return <Box *>jet_slots_get(&self.subs, f.sid)

    # -- parsing ---------------------------------------------------------------------------------

    cdef int _parse(self, jet_span *text) noexcept nogil:
        """Deal with every whole frame in the buffer, or up to one that Python has to see.

        `text` gets the text of INFO and -ERR; for SLOW and LAST its length is the sid, for BAD the
        status.
        """
        cdef jet_frame f
        cdef jet_record r
        cdef size_t used
        cdef int got, event = NOTHING
        cdef Put put
        cdef Box *box
        cdef Box *held = NULL       # whose lock we hold: runs of frames for one box lock once
        cdef Box *wake = NULL
        cdef Box *last_box = NULL
        cdef uint64_t last_sid = 0, msgs = 0, bytes_ = 0
        cdef double now = monotonic()
        lock_leaf(&self.route_lock)
        while event == NOTHING and jet_buf_len(&self.buf):
            got = jet_parser_next(&self.parser,
                                  span_of(jet_buf_ptr(&self.buf), jet_buf_len(&self.buf)), &f, &used)
            if got == 0:
                break
            if got < 0:
                text.len = <size_t>(-got)
                event = BAD
                break
            if f.op == JET_OP_MSG:
                msgs += 1
                bytes_ += f.header.len + f.payload.len
                if f.sid == last_sid:
                    box = last_box
                else:
                    box = self._route(&f)
                    if f.sid != self.reply_sid:
                        last_sid, last_box = f.sid, box
                if box == NULL:
                    jetsync_add(&self.unmatched_, 1)
                else:
                    if box != held:
                        if held != NULL:
                            unlock_leaf(&held.lock)
                        lock_leaf(&box.lock)
                        held = box
                        if not box.touched:
                            box.touched = True
                            box.next_touched = wake
                            wake = box
                    r.subject = f.subject
                    r.reply = f.reply
                    r.header = f.header
                    r.payload = f.payload
                    r.status = f.status
                    put = box_put(box, &r, now)
                    if put != PUT_NOTHING:
                        text.len = box.sid
                        event = LAST if put == PUT_LAST else SLOW
            elif f.op == JET_OP_PING:
                self.outbound.pong()
            elif f.op == JET_OP_PONG:
                event = PONG
            elif f.op == JET_OP_INFO:
                event = INFO
                text[0] = f.payload
            elif f.op == JET_OP_ERR:
                event = ERR
                text[0] = f.payload
            # Consuming only moves a mark: what `text` points to stays until the next recv.
            jet_buf_consume(&self.buf, used)
        jetsync_add(&self.msgs, msgs)
        jetsync_add(&self.bytes_, bytes_)
        if held != NULL:
            unlock_leaf(&held.lock)
        while wake != NULL:
            lock_leaf(&wake.lock)
            wake.touched = False
            if box_has_enough(wake):
                gate_open(&wake.gate)
            held = wake.next_touched
            unlock_leaf(&wake.lock)
            wake = held
        unlock_leaf(&self.route_lock)
        return event

    cdef tuple _event(self, int kind, jet_span text):
        if kind == SLOW or kind == LAST:
            return kind, text.len
        if kind == BAD:
            return BAD, BAD_TEXT.get(-<int>text.len, "bytes that are not the NATS protocol")
        if kind == PONG:
            return PONG, None
        return kind, bytes_of(text)

    def feed(self, bytes data not None):
        """Take bytes as if they had been received; returns the events they caused, in order."""
        cdef jet_span text = span_of(NULL, 0)
        cdef int kind
        cdef list events = []
        if jet_buf_append(&self.buf, <const char *>data, len(data)) != 0:
            raise MemoryError("no memory for received bytes")
        while True:
            with nogil:
                kind = self._parse(&text)
            if kind == NOTHING:
                return events
            events.append(self._event(kind, text))
            if kind == BAD:
                return events

    def pump(self, int fd, filter=None):
        """Receive until something needs Python; returns (event, detail).

        Blocks without the GIL. Ends with EVENT_EOF when the peer or `shutdown(fd)` closed the link.
        What comes goes through `filter.decrypt` if there is a filter (TLS).
        """
        cdef jet_span text = span_of(NULL, 0)
        cdef int kind = NOTHING
        self.filter = filter
        self.trouble = None
        with nogil:
            while kind == NOTHING:
                kind = self._parse(&text)
                if kind == NOTHING and self.bell >= 0:
                    kind = self.lend(&text)
                if kind == NOTHING:
                    kind = self._receive(fd, filter is not None)
        if kind == EOF_:
            return EOF_, self.errno_
        if self.trouble is not None:
            return BAD, self.trouble
        return self._event(kind, text)

    cdef int look(self, int fd, jet_span *text) noexcept nogil:
        cdef int kind = self._receive(fd, False)
        return self._parse(text) if kind == NOTHING else kind

    cdef int _receive(self, int fd, bint filtered) noexcept nogil:
        """Receive once; returns NOTHING, EOF_ or BAD. With a bell it does not wait."""
        cdef jet_buf *into = &self.raw if filtered else &self.buf
        cdef int flags = MSG_DONTWAIT if self.bell >= 0 else 0
        cdef size_t room = RECV
        cdef unsigned char *to
        cdef ssize_t n
        cdef int kind = NOTHING
        if not filtered and self.parser.need > jet_buf_len(into) + room:
            room = self.parser.need - jet_buf_len(into)
        to = jet_buf_reserve(into, room)
        if to == NULL:
            with gil:
                self.trouble = BAD_TEXT[JET_ERR_MEMORY]
            return BAD
        while True:
            n = recv(fd, to, room, flags)
            if n >= 0 or errno != EINTR:
                break
        if n < 0 and errno == EAGAIN:
            return NOTHING
        if n <= 0:
            self.errno_ = errno if n < 0 else 0
            return EOF_
        jetsync_add(&self.reads_, 1)
        if not filtered:
            jet_buf_commit(into, <size_t>n)
            return NOTHING
        with gil:
            self.trouble = self._decrypt((<const char *>to)[:n])
            if self.trouble is not None:
                kind = BAD
        return kind

    cdef str _decrypt(self, bytes data):
        """Put what received bytes mean into the buffer; returns what is wrong with them, or None."""
        cdef bytes piece
        try:
            for piece in self.filter.decrypt(data):
                if jet_buf_append(&self.buf, <const char *>piece, len(piece)) != 0:
                    return BAD_TEXT[JET_ERR_MEMORY]
            if self.filter.owes:
                self.outbound.nudge()
        except Exception as error:
            return f"bytes that cannot be decrypted: {error}"
        return None

    def abandon(self):
        """Keep the tables of a forked child usable, although a thread of the parent may hold their
        lock for ever. Nothing feeds them any more."""
        leaf_init(&self.route_lock)
        self.abandon_seat()

    def reset(self, size_t max_size):
        """Forget half-received bytes of the last link."""
        jet_buf_clear(&self.buf, 4 * RECV)
        jet_parser_init(&self.parser, max_size)

    @property
    def messages(self):
        """Messages received so far."""
        return jetsync_count(&self.msgs)

    @property
    def bytes(self):
        """Their headers and payloads, in bytes."""
        return jetsync_count(&self.bytes_)

    @property
    def reads(self):
        """How often something was received at all: a sign of life."""
        return jetsync_count(&self.reads_)

    @property
    def unmatched(self):
        """Messages that nobody waited for any more: late replies and ended subscriptions."""
        return jetsync_count(&self.unmatched_)
