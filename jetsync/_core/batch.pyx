"""MsgBatch: many messages in one piece of memory, as objects or as Arrow columns."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from jetsync._core.arrow cimport export_chain
from jetsync._core.arrow_stream cimport stream_of
from jetsync._core.gil cimport is_little
from jetsync._core.headers cimport PARENT, add_parent
from jetsync._core.message cimport ACKED, CONFIRMED, DONE
from jetsync._core.sync cimport deadline_of, monotonic
from jetsync._core.csrc cimport (
    JET_ERR_MEMORY, JET_OK, jet_buf, jet_buf_free, jet_buf_init, jet_buf_len, jet_buf_ptr, jet_chain_append,
    jet_chain_begin, jet_chain_free, jet_chain_init, jet_chain_iter, jet_chain_last,
    jet_chain_move, jet_chain_next, jet_chain_peek, jet_encode_answer, jet_encode_u64, jet_jsack,
    jet_jsack_parse, jet_span, jet_status, span_of, span_of_bytes,
)
from jetsync._core.stored cimport StoredFactory

from jetsync.errors import ConfigError


cdef enum:
    MAX_INBOX = 236  # bytes of an inbox in front of the number of a message


@cython.collection_type("sequence")  # for match; see decision 19
cdef class MsgBatch:
    """A sequence of received messages that owns its bytes.

    Message objects are built only on access; `__arrow_c_array__` and `__arrow_c_stream__` export
    all messages as columns without building any. Not thread-safe while indices are first used.
    """

    def __cinit__(self, *args, **kwargs):
        jet_chain_init(&self.chain)

    def __dealloc__(self):
        free(self.index)
        jet_chain_free(&self.chain)

    cdef int bind(self, MessageFactory factory, Outbound outbound) except -1:
        self.factory = factory
        self.owners = factory.owners()
        self.outbound = outbound
        return 0

    cdef int add(self, jet_record *r) except -1:
        """Copy one message to the end."""
        self.forget_index()
        if jet_chain_append(&self.chain, r) != JET_OK:
            raise MemoryError("no memory for received messages")
        self.rows += 1
        return 0

    cdef int adopt(self, jet_chain *chain) except -1:
        """Take over a whole chain without copying; none of its records has a status."""
        self.forget_index()
        self.rows += chain.count
        jet_chain_move(&self.chain, chain)
        return 0

    cdef void forget_index(self) noexcept:
        """Drop the index, because the chain changes and its records may move."""
        free(self.index)
        self.index = NULL
        self.messages = None
        self.ack_states = None
        self.changes += 1

    cdef int build_index(self) except -1:
        cdef jet_chain_iter it
        cdef size_t i = 0
        if self.messages is not None:
            return 0
        free(self.index)  # of a call that had no memory for the rest
        self.index = NULL
        if self.rows:
            self.index = <jet_record *>malloc(self.rows * sizeof(jet_record))
            if self.index == NULL:
                raise MemoryError("no memory for the index of a batch")
        jet_chain_begin(&self.chain, &it)
        while i < self.rows and jet_chain_next(&it, &self.index[i]):
            i += 1
        self.messages = [None] * <Py_ssize_t>self.rows
        return 0

    def __len__(self):
        return self.rows

    def __bool__(self):
        return self.rows > 0

    def __getitem__(self, item):
        self.build_index()
        if isinstance(item, slice):
            return list(map(self.__getitem__, range(*item.indices(self.rows))))
        cdef Py_ssize_t i = item
        if i < 0:
            i += self.rows
        if i < 0 or i >= <Py_ssize_t>self.rows:
            raise IndexError("batch index out of range")
        msg = self.messages[i]
        if msg is None:
            msg = self.message(i, &self.index[i])
            self.messages[i] = msg
        return msg

    cdef Msg message(self, size_t i, jet_record *r):
        """Make the object of a row. All objects of a row share its acknowledgement state."""
        cdef Msg msg = self.factory.make(r)
        if self.ack_states is None:
            self.ack_states = AckStates(self.rows, self.flags, self.since)
        msg.ack_states = self.ack_states
        msg.row = i
        return msg

    def __iter__(self):
        return BatchIterator(self)

    @property
    def nbytes(self):
        """Bytes of all subjects, replies, headers and payloads."""
        return self.chain.bytes

    cdef tuple _sequences(self):
        cdef jet_chain_iter it
        cdef size_t i
        cdef jet_jsack ack
        self.build_index()
        first = last = None
        for i in range(self.rows):
            if jet_jsack_parse(self.index[i].reply, &ack) == JET_OK:
                first = ack.stream_seq
                break
        for i in range(self.rows, 0, -1):
            if jet_jsack_parse(self.index[i - 1].reply, &ack) == JET_OK:
                last = ack.stream_seq
                break
        return first, last

    @property
    def first_seq(self):
        """Stream sequence of the first message, or None for an empty batch."""
        return self._sequences()[0]

    @property
    def last_seq(self):
        """Stream sequence of the last message, or None for an empty batch."""
        return self._sequences()[1]

    @property
    def _flags(self):
        """The acknowledgement state of all of its messages: DONE, ACKED, CONFIRMED."""
        return self.flags

    def _age(self):
        """Seconds since its last message was received, or all were kept alive; 0: not known."""
        return monotonic() - self.since if self.since > 0 else 0.0

    def _kept_alive(self):
        """Restart their time of receipt, after they were kept alive."""
        self.since = monotonic()
        if self.ack_states is not None:
            self.ack_states.since = self.since

    cdef bint skips(self, size_t i, bint confirming) noexcept nogil:
        """Whether a row needs no further acknowledgement; when confirming: no confirmation."""
        cdef uint8_t flags = self.flags if self.ack_states is None else self.ack_states.flags[i]
        if confirming:
            return (flags & CONFIRMED) or (flags & (DONE | ACKED)) == DONE
        return flags & DONE

    cdef uint64_t encode_answers(self, jet_buf *frames, bytes payload, bytes prefix) except? 0:
        cdef uint64_t count = 0
        cdef jet_status status
        cdef jet_span body = span_of_bytes(payload)
        cdef jet_span inbox = span_of_bytes(prefix or b"")
        cdef bint confirming = prefix is not None
        if inbox.len > MAX_INBOX:
            raise ConfigError("the inbox prefix is too long")
        if is_little(self.chain.bytes):
            status = self._encode_answers(frames, body, confirming, inbox, &count)
        else:
            with nogil:
                status = self._encode_answers(frames, body, confirming, inbox, &count)
        if status == JET_ERR_MEMORY:
            raise MemoryError("no memory for the answers of a batch")
        return count

    cdef jet_status _encode_answers(self, jet_buf *frames, jet_span body, bint confirming,
                                    jet_span inbox, uint64_t *count) noexcept nogil:
        cdef jet_chain_iter it
        cdef jet_record r
        cdef size_t i
        cdef uint8_t text[MAX_INBOX + 20]
        cdef jet_span reply = span_of(NULL, 0)
        cdef jet_status status = JET_OK
        memcpy(text, inbox.ptr, inbox.len)
        jet_chain_begin(&self.chain, &it)
        for i in range(self.rows):
            jet_chain_next(&it, &r)
            if self.skips(i, confirming):
                continue
            if confirming:
                reply = span_of(text, inbox.len + jet_encode_u64(text + inbox.len, i))
            status = jet_encode_answer(frames, r.reply, reply, body, self.outbound.link.max_line)
            if status == JET_OK:
                count[0] += 1
            elif status == JET_ERR_MEMORY:
                break
        return status

    def _note(self, uint8_t flags):
        """Set the acknowledgement state of every message, except those settled one by one."""
        cdef size_t i
        self.flags |= flags
        if self.ack_states is not None:
            for i in range(self.rows):
                if not self.skips(i, flags & CONFIRMED):
                    self.ack_states.flags[i] |= flags

    def __arrow_c_array__(self, requested_schema=None):
        """Export as an Arrow struct array (Arrow C data interface): two capsules that own copies."""
        return self._arrow_capsules()

    def __arrow_c_stream__(self, requested_schema=None):
        """The same as a stream of one batch (Arrow C stream interface): a capsule that owns copies."""
        schema, array = self._arrow_capsules()
        return stream_of(schema, array)

    def _arrow_capsules(self, columns=None, bint text_headers=False, bint microseconds=False):
        """The same with chosen columns, header values as text (invalid UTF-8 replaced), and times in
        microseconds."""
        return export_chain(&self.chain, columns, text_headers, microseconds,
                            isinstance(self.factory, StoredFactory))


# Functions for other rooms. Users hold batches, so these are no methods of them.

def first_of(MsgBatch batch not None):
    """Return the first message, without an index of all; None for an empty batch."""
    cdef jet_record r
    return batch.factory.make(&r) if jet_chain_peek(&batch.chain, &r) else None


def last_of(MsgBatch batch not None):
    """Return the last message, without an index of all; None for an empty batch."""
    cdef jet_record r
    return batch.factory.make(&r) if jet_chain_last(&batch.chain, &r) else None


cdef class HeaderBlocks:
    """Iterates over the header blocks of the first `limit` messages of a batch, of those that have
    one. No message object is made, and nothing is read until the first is asked for."""
    cdef MsgBatch batch
    cdef size_t limit
    cdef object blocks

    def __cinit__(self, MsgBatch batch not None, size_t limit):
        self.batch = batch
        self.limit = limit

    def __iter__(self):
        return self

    def __next__(self):
        if self.blocks is None:
            self.blocks = iter(self.read())
        return next(self.blocks)

    cdef list read(self):
        cdef jet_chain_iter it
        cdef jet_record r
        cdef size_t left = self.limit
        cdef list found = []
        jet_chain_begin(&self.batch.chain, &it)
        while left and jet_chain_next(&it, &r):
            left -= 1
            if r.header.len:
                found.append((<const char *>r.header.ptr)[:r.header.len])
        return found

    def parents(self):
        """Return what `headers.parent_texts` makes of them, without an object for each."""
        cdef jet_chain_iter it
        cdef jet_record r
        cdef size_t n = 0, left = self.limit
        cdef bytes texts = PyBytes_FromStringAndSize(NULL, PARENT * min(left, self.batch.rows))
        jet_chain_begin(&self.batch.chain, &it)
        while left and jet_chain_next(&it, &r):
            left -= 1
            if r.header.len and not add_parent(r.header, PyBytes_AS_STRING(texts), &n):
                return None
        return texts[:n]


def unconfirmed_rows(MsgBatch batch not None):
    """Return the rows that `ack_all` with a reply prefix asks about."""
    cdef size_t i
    cdef list found = []
    for i in range(batch.rows):
        if not batch.skips(i, True):
            found.append(i)
    return found


def ack_all(MsgBatch batch not None, bytes payload not None, bytes reply_prefix=None,
            uint8_t flags=0, seconds=None):
    """Publish `payload` to the reply subject of every message, in one write, but for those that
    were settled one by one.

    With `reply_prefix` each asks for a confirmation to that subject followed by its index.
    `flags` are noted for all that were answered; with ACKED it is sent again after a lost link.
    Returns how many were answered. Waits only while the outbound buffer is full, up to
    `seconds`, at most for `write_timeout`.
    """
    cdef jet_buf frames
    cdef uint64_t count
    if batch.outbound is None or batch.rows == 0:
        return 0
    jet_buf_init(&frames)
    try:
        count = batch.encode_answers(&frames, payload, reply_prefix)
        batch.outbound.append_frames(span_of(jet_buf_ptr(&frames), jet_buf_len(&frames)), count,
                                    flags & ACKED, True, deadline_of(seconds))
    finally:
        jet_buf_free(&frames)
    if flags:
        batch._note(flags)
    return count


cdef class BatchIterator:
    """Walks a batch once, building each message on the way and keeping none."""
    cdef MsgBatch batch
    cdef jet_chain_iter it
    cdef size_t at
    cdef size_t changes         # of the batch, when `it` began

    def __cinit__(self, MsgBatch batch):
        self.batch = batch
        self.begin()

    cdef int begin(self) except -1:
        """Move behind the messages that were handed out, also after the batch has changed."""
        cdef jet_record r
        cdef size_t i
        self.changes = self.batch.changes
        jet_chain_begin(&self.batch.chain, &self.it)
        for i in range(self.at):
            if not jet_chain_next(&self.it, &r):
                break
        return 0

    def __iter__(self):
        return self

    def __next__(self):
        cdef jet_record r
        cdef jet_chain_iter it
        cdef object msg = None
        if self.changes != self.batch.changes:
            self.begin()
        it = self.it
        if not jet_chain_next(&it, &r):
            raise StopIteration
        if self.batch.messages is not None:
            msg = self.batch.messages[self.at]
        if msg is None:
            msg = self.batch.message(self.at, &r)
        self.it = it  # last, so that without memory for this message it is the next one again
        self.at += 1
        return msg
