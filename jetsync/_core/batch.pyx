"""MsgBatch: many messages in one piece of memory, as objects or as Arrow columns."""

from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from jetsync._core.arrow cimport export_chain
from jetsync._core.csrc cimport (
    JET_OK, jet_buf, jet_buf_free, jet_buf_init, jet_buf_len, jet_buf_ptr, jet_chain_append,
    jet_chain_begin, jet_chain_free, jet_chain_init, jet_chain_iter, jet_chain_move,
    jet_chain_next, jet_encode_answer, jet_encode_u64, jet_jsack, jet_jsack_parse, jet_span, span_of,
    span_of_bytes,
)

from jetsync.errors import ConfigError


cdef class MsgBatch:
    """A sequence of received messages that owns its bytes.

    Messages become objects only when they are looked at; `__arrow_c_array__` hands all of them
    over as columns without building any. Not thread-safe while indices are first used.
    """

    def __cinit__(self, *args, **kwargs):
        jet_chain_init(&self.chain)

    def __dealloc__(self):
        free(self.index)
        jet_chain_free(&self.chain)

    cdef int bind(self, Maker maker, Outbound outbound) except -1:
        self.maker = maker
        self.kept = maker.kept()
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
        """The chain changes: what the index points to may move."""
        free(self.index)
        self.index = NULL
        self.messages = None

    cdef int build_index(self) except -1:
        cdef jet_chain_iter it
        cdef size_t i = 0
        if self.messages is not None:
            return 0
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
            return [self[i] for i in range(*item.indices(self.rows))]
        cdef Py_ssize_t i = item
        if i < 0:
            i += self.rows
        if i < 0 or i >= <Py_ssize_t>self.rows:
            raise IndexError("batch index out of range")
        msg = self.messages[i]
        if msg is None:
            msg = self.maker.make(&self.index[i])
            self.messages[i] = msg
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

    def answer_all(self, bytes payload not None, bytes reply_prefix=None):
        """Publish `payload` to the reply subject of every message, in one write.

        With `reply_prefix` each asks for a confirmation to that subject followed by its index.
        Returns how many were answered. Waits only while the outbound buffer is full.
        """
        cdef jet_buf frames
        cdef size_t i
        cdef uint64_t count = 0
        cdef jet_span body = span_of_bytes(payload)
        cdef jet_span reply = span_of(NULL, 0)
        cdef size_t prefix = 0
        cdef uint8_t text[256]
        if self.outbound is None or self.rows == 0:
            return 0
        if reply_prefix is not None:
            prefix = len(reply_prefix)
            if prefix > sizeof(text) - 20:
                raise ConfigError("the inbox prefix is too long")
            memcpy(text, <const char *>reply_prefix, prefix)
        self.build_index()
        jet_buf_init(&frames)
        try:
            with nogil:
                for i in range(self.rows):
                    if prefix:
                        reply = span_of(text, prefix + jet_encode_u64(text + prefix, i))
                    if jet_encode_answer(&frames, self.index[i].reply, reply, body) == JET_OK:
                        count += 1
            self.outbound.append_frames(span_of(jet_buf_ptr(&frames), jet_buf_len(&frames)), count)
        finally:
            jet_buf_free(&frames)
        return count

    def __arrow_c_array__(self, requested_schema=None):
        """Export as an Arrow struct array (Arrow C data interface): two capsules that own copies."""
        return export_chain(&self.chain, None, False)

    def arrow_capsules(self, columns=None, bint text_headers=False):
        """The same with chosen columns, and header values as text (invalid UTF-8 replaced)."""
        return export_chain(&self.chain, columns, text_headers)


cdef class BatchIterator:
    """Walks a batch once, building each message on the way and keeping none."""
    cdef MsgBatch batch
    cdef size_t at

    def __cinit__(self, MsgBatch batch):
        batch.build_index()
        self.batch = batch

    def __iter__(self):
        return self

    def __next__(self):
        if self.at >= self.batch.rows:
            raise StopIteration
        self.batch.build_index()
        cdef object msg = self.batch.messages[self.at]
        if msg is None:
            msg = self.batch.maker.make(&self.batch.index[self.at])
        self.at += 1
        return msg
