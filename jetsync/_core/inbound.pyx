"""Inbound: from the socket to the mailboxes, without the GIL. Binds link_inbound."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy

from jetsync._core.csrc cimport (
    JET_ERR_ARGS, JET_ERR_CRLF, JET_ERR_LINE, JET_ERR_MEMORY, JET_ERR_OP, JET_ERR_SIZE, JET_OK,
    JET_TOKEN_MAX, bytes_of, jet_buf_append, jet_token_write, span_of, span_of_bytes,
)
from jetsync._core.link cimport (
    LINK_EVENT_BAD, LINK_EVENT_EOF, LINK_EVENT_ERR, LINK_EVENT_INFO, LINK_EVENT_LAST,
    LINK_EVENT_NONE, LINK_EVENT_PONG, LINK_EVENT_SLOW, LINK_FILTER_BROKEN, LINK_FILTER_DONE,
    LINK_FILTER_MORE, LINK_NOT_DECODED, link_count, link_filtered,
    link_inbound_add, link_inbound_add_reply, link_inbound_begin, link_inbound_feed,
    link_inbound_free, link_inbound_init, link_inbound_link, link_inbound_parse, link_inbound_pump,
    link_inbound_remove, link_inbound_remove_reply, link_inbound_reset, link_inbound_route_replies,
    link_inbound_unlink, link_reader_turn_is_taken, link_websocket_decode,
)
from jetsync._core.mailbox cimport POOL, Mailbox
from jetsync._core.websocket cimport WebSocket, is_native

from os import urandom

from jetsync.errors import ProtocolError


# The events of feed() and pump(). The C library handles everything else.
EVENT_INFO, EVENT_ERR, EVENT_PONG = LINK_EVENT_INFO, LINK_EVENT_ERR, LINK_EVENT_PONG
EVENT_SLOW, EVENT_LAST = LINK_EVENT_SLOW, LINK_EVENT_LAST
EVENT_EOF, EVENT_BAD = LINK_EVENT_EOF, LINK_EVENT_BAD

cdef str NO_MEMORY = "more data than there is memory for"
cdef dict BAD_TEXT = {
    JET_ERR_OP: "a line with an unknown verb",
    JET_ERR_ARGS: "a message line with wrong arguments",
    JET_ERR_SIZE: "a message with an impossible size",
    JET_ERR_LINE: "a line that is too long or not ended by CRLF",
    JET_ERR_CRLF: "a payload not followed by CRLF",
    JET_ERR_MEMORY: NO_MEMORY,
}


cdef link_filtered call_filter(void *context, const uint8_t *data, size_t n,
                               jet_buf *out) noexcept with gil:
    """Decode for the C library by a filter of Python code."""
    cdef Inbound inbound = <Inbound>context
    try:
        return inbound._decode((<const char *>data)[:n], out)
    except BaseException:
        inbound.trouble = NO_MEMORY
        return LINK_FILTER_BROKEN


cdef int leave_link(Mailbox mailbox) except -1:
    """Detach a mailbox from the link: its waiters do not read the socket any more."""
    if mailbox is not None:
        mailbox.reader = NULL
        mailbox.inbound = None
    return 0


cdef class Inbound:
    """Routes received messages to mailboxes. One thread feeds or pumps, any thread adds and removes.

    The thread that pumps may let a waiting caller read (`link`). `max_size` bounds the size of a
    message that is taken from the server.
    """

    def __cinit__(self, Outbound outbound not None, size_t max_size=64 << 20):
        cdef bytes secret = urandom(sizeof(self.link_.key))
        link_inbound_init(&self.link_, &outbound.link, max_size)
        memcpy(&self.link_.key, <const char *>secret, sizeof(self.link_.key))
        self.link_.pool = &POOL
        self.outbound = outbound
        self.mailboxes = {}
        self.reply_mailboxes = {}
        self.reply_prefix = b""

    def __dealloc__(self):
        link_inbound_free(&self.link_)

    # -- routes ----------------------------------------------------------------------------------

    def add(self, Mailbox mailbox not None):
        """Give a mailbox a subscription id; returns it."""
        cdef uint64_t sid
        with nogil:
            sid = link_inbound_add(&self.link_, &mailbox.queue)
        if sid == 0:
            raise MemoryError("no room for another subscription")
        try:
            self.mailboxes[sid] = mailbox
        except BaseException:
            with nogil:
                link_inbound_remove(&self.link_, sid)
            raise
        mailbox.inbound = self
        mailbox.reader = &self.link_
        return sid

    def remove(self, uint64_t sid):
        """Forget a subscription id; messages that still come for it are dropped."""
        with nogil:
            link_inbound_remove(&self.link_, sid)
        leave_link(self.mailboxes.pop(sid, None))

    def get(self, sid):
        """Return the mailbox of a subscription id, or None."""
        return self.mailboxes.get(sid)

    def set_reply_route(self, bytes prefix not None, uint64_t sid):
        """Route messages of subscription `sid` whose subject is `prefix` + token by that token."""
        cdef jet_span span = span_of_bytes(prefix)
        with nogil:
            link_inbound_route_replies(&self.link_, span, sid)
        self.reply_prefix = prefix  # keeps the bytes alive that the reader compares with

    # These two give the GIL up only while the lock is taken: each request needs both.
    cpdef uint64_t add_reply(self, Mailbox mailbox) except 0:
        """Give a mailbox the number of a reply token, which no other request ever had."""
        cdef uint64_t token
        if mailbox is None:
            raise TypeError("a mailbox is needed")
        if not link_inbound_add_reply(&self.link_, &mailbox.queue, False, &token):
            with nogil:
                link_inbound_add_reply(&self.link_, &mailbox.queue, True, &token)
        if token == 0:
            raise MemoryError("no room for another request")
        try:
            self.reply_mailboxes[token] = mailbox
        except BaseException:
            with nogil:
                link_inbound_remove_reply(&self.link_, token, True)
            raise
        mailbox.inbound = self
        mailbox.reader = &self.link_
        return token

    cpdef str reply_token(self, uint64_t token):
        """The token of a reply subject that leads to a number. It holds 64 bits of a keyed hash, so
        a client that was not shown the subject cannot guess it."""
        cdef uint8_t text[JET_TOKEN_MAX]
        cdef size_t n = jet_token_write(&self.link_.key, token, text)
        return (<const char *>text)[:n].decode("ascii")

    cpdef remove_reply(self, uint64_t token):
        """Forget the number of a token; a late answer is counted in `unmatched`."""
        if not link_inbound_remove_reply(&self.link_, token, False):
            with nogil:
                link_inbound_remove_reply(&self.link_, token, True)
        if self.reply_mailboxes is not None:  # else the collector has emptied this
            leave_link(self.reply_mailboxes.pop(token, None))

    def pending_replies(self, link=None):
        """The mailboxes of requests that still wait; with `link`, those of links up to that one."""
        cdef Mailbox mailbox
        cdef list found = list(self.reply_mailboxes.values())
        cdef list of_links = []
        if link is None:
            return found
        for mailbox in found:
            if mailbox.link <= <uint64_t>link:
                of_links.append(mailbox)
        return of_links

    # -- reading ---------------------------------------------------------------------------------

    cdef tuple _event(self, int kind, jet_span text):
        if kind == LINK_EVENT_SLOW or kind == LINK_EVENT_LAST:
            return kind, text.len
        if kind == LINK_EVENT_BAD:
            if text.len == <size_t>LINK_NOT_DECODED:
                native = is_native(self.filter)
                return kind, ((<WebSocket>self.filter).fault() if native else self.trouble) or NO_MEMORY
            return kind, BAD_TEXT.get(-<int>text.len, "bytes that are not the NATS protocol")
        if kind == LINK_EVENT_PONG:
            return kind, None
        if kind == LINK_EVENT_EOF:
            return kind, self.link_.why
        return kind, bytes_of(text)

    def feed(self, bytes data not None):
        """Take bytes as if they had been received; returns the events they caused, in order."""
        cdef jet_span text = span_of(NULL, 0)
        cdef int kind
        cdef list events = []
        if link_inbound_feed(&self.link_, span_of_bytes(data)) != JET_OK:
            raise MemoryError("no memory for received bytes")
        while True:
            with nogil:
                kind = link_inbound_parse(&self.link_, &text)
            if kind == LINK_EVENT_NONE:
                return events
            events.append(self._event(kind, text))
            if kind == LINK_EVENT_BAD:
                return events

    def link(self, int fd):
        """Let callers read `fd` while the reader waits. Only the reader, between two pumps."""
        link_inbound_link(&self.link_, fd)

    def unlink(self):
        """Let no caller read any more, before `fd` is closed. Only the reader, between two pumps."""
        link_inbound_unlink(&self.link_)

    def pump(self, int fd, filter=None):
        """Receive until something needs Python; returns (event, detail).

        Blocks without the GIL. Ends with EVENT_EOF when the peer or `shutdown(fd)` closed the link.
        What comes goes through `filter.decode` if there is a filter (TLS, WebSocket).
        """
        cdef jet_span text = span_of(NULL, 0)
        cdef int kind
        self.filter = filter
        self.trouble = None
        self.link_.decode = NULL
        self.link_.context = <void *>self
        if is_native(filter):
            self.link_.decode = link_websocket_decode
            self.link_.context = &(<WebSocket>filter).link
        elif filter is not None:
            self.link_.decode = call_filter
        with nogil:
            kind = link_inbound_pump(&self.link_, fd, &text)
        return self._event(kind, text)

    cdef link_filtered _decode(self, bytes data, jet_buf *out) noexcept:
        """Append the decoded bytes; LINK_FILTER_BROKEN, with `trouble`, when they cannot be decoded."""
        cdef bytes piece
        cdef jet_span span
        try:
            for piece in self.filter.decode(data):
                span = span_of_bytes(piece)
                if jet_buf_append(out, span.ptr, span.len) != JET_OK:
                    raise MemoryError
            if self.filter.owes:
                self.outbound.nudge()
            return LINK_FILTER_MORE if self.filter.more else LINK_FILTER_DONE
        except MemoryError:
            self.trouble = NO_MEMORY
        except ProtocolError as error:
            self.trouble = str(error)
        except BaseException as error:
            self.trouble = f"bytes that cannot be decrypted: {error}"
        return LINK_FILTER_BROKEN

    def abandon(self):
        """Keep the tables of a forked child usable, although a thread of the parent may hold their
        lock for ever. Nothing feeds them any more."""
        link_inbound_reset(&self.link_)

    def reset(self, size_t max_size):
        """Forget half-received bytes of the last link."""
        link_inbound_begin(&self.link_, max_size)

    @property
    def is_taken(self):
        """Whether some thread reads now: a caller, or the reader when it does not wait."""
        return link_reader_turn_is_taken(&self.link_.turn)

    @property
    def messages(self):
        """Messages received so far."""
        return link_count(&self.link_.messages)

    @property
    def bytes(self):
        """Their headers and payloads, in bytes."""
        return link_count(&self.link_.bytes)

    @property
    def reads(self):
        """How often something was received at all: a sign of life."""
        return link_count(&self.link_.reads)

    @property
    def unmatched(self):
        """Messages that nothing waits for any more: late replies and ended subscriptions."""
        return link_count(&self.link_.unmatched)
