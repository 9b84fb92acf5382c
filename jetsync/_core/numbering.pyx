"""Numbering: the reply subjects, header blocks and automatic ids of numbered messages."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from jetsync._core.arrow_rows cimport ArrowRows
from jetsync._core.csrc cimport (
    JET_OK, JET_TOKEN_MAX, JET_TOKEN_PROOF, jet_buf_append, jet_buf_clear, jet_buf_free, jet_buf_init, jet_buf_len,
    jet_buf_ptr, jet_encode_u64, jet_header_append, jet_header_find, jet_scan_leading_u64, jet_span,
    jet_status, jet_token_key, jet_token_read, jet_token_write, span_of, span_of_bytes,
)
from jetsync._core.encoding cimport raise_status


cdef bytes VERSION_LINE = b"NATS/1.0\r\n"
cdef bytes ID_NAME = b"Nats-Msg-Id"


cdef class Numbering:
    """The parts that differ between numbered messages. For one thread at a time.

    `reply_prefix` is the reply subject up to the number; `id_prefix` (or None) makes the automatic
    message id together with it; `fixed` are header lines for every message. With a `key` of 16
    random bytes, the reply subjects that were seen do not tell those of other messages."""

    def __cinit__(self, bytes reply_prefix not None, bytes id_prefix, bytes fixed not None,
                  bytes key not None=b""):
        cdef jet_span found
        cdef bytes numbered
        jet_buf_init(&self.scratch)
        if key:
            if len(key) != sizeof(jet_token_key):
                raise ValueError(f"the size of a key in bytes is {sizeof(jet_token_key)}")
            memcpy(&self.key, <const char *>key, sizeof(jet_token_key))
            self.secret = True
        self.fixed = VERSION_LINE + fixed + b"\r\n" if fixed else b""
        self.fixed_has_id = jet_header_find(span_of_bytes(self.fixed), span_of_bytes(ID_NAME), &found)
        self.prefix_len = len(reply_prefix)
        self.reply_text = <uint8_t *>malloc(self.prefix_len + JET_TOKEN_MAX)
        if id_prefix is not None and not self.fixed_has_id:
            numbered = VERSION_LINE + fixed + ID_NAME + b": " + id_prefix
            self.id_line = len(VERSION_LINE) + len(fixed)
            self.id_len = len(numbered)
            self.id_block = <uint8_t *>malloc(self.id_len + 20 + 4)
        if self.reply_text == NULL or (self.id_len and self.id_block == NULL):
            raise MemoryError("no memory for a publish window")
        memcpy(self.reply_text, <const char *>reply_prefix, self.prefix_len)
        if self.id_len:
            memcpy(self.id_block, <const char *>numbered, self.id_len)

    def __dealloc__(self):
        free(self.reply_text)
        free(self.id_block)
        jet_buf_free(&self.scratch)

    cdef jet_status prepare(self, uint64_t number, bytes block, jet_span msg_id,
                            bint auto_id) noexcept:
        """Let `reply` and `header` be those of message `number`; `header` is empty when it has none.

        `block` is a finished block of the user's, or empty."""
        cdef size_t lines = 0
        cdef jet_status status
        self._number(number)
        if not block and not msg_id.len:
            if auto_id and self.id_len != 0:
                self._numbered_header()
            else:
                self.header = span_of_bytes(self.fixed)
                self.has_id = self.fixed_has_id
            return JET_OK
        status = self._first_lines(&lines)
        if status == JET_OK and block:
            status = jet_buf_append(&self.scratch, <const char *>block + len(VERSION_LINE),
                                    len(block) - len(VERSION_LINE) - 2)
        return self._last_lines(lines, msg_id, auto_id) if status == JET_OK else status

    cdef int prepare_row(self, uint64_t number, jet_span msg_id, ArrowRows rows, int64_t headers,
                         int64_t row) except -1:
        """The same for a message whose header lines are in column `headers` of an Arrow batch (none:
        -1). Raises for a row that holds no headers."""
        cdef size_t lines = 0
        if headers < 0:
            return raise_status(self.prepare(number, b"", msg_id, True), msg_id)
        self._number(number)
        raise_status(self._first_lines(&lines), msg_id)
        rows.append_headers(headers, row, &self.scratch)
        return raise_status(self._last_lines(lines, msg_id, True), msg_id)

    cdef void _number(self, uint64_t number) noexcept:
        """Let `reply` be the reply subject of message `number`."""
        cdef size_t length
        if self.secret:  # a token is the number and the proof
            length = jet_token_write(&self.key, number, self.reply_text + self.prefix_len)
            self.digits = length - JET_TOKEN_PROOF
        else:
            length = self.digits = jet_encode_u64(self.reply_text + self.prefix_len, number)
        self.reply = span_of(self.reply_text, self.prefix_len + length)

    cdef bint read(self, jet_span token, uint64_t *number) noexcept:
        """Read the end of a reply subject. Returns whether it is that of a message of ours."""
        if self.secret:
            return jet_token_read(&self.key, token, number) == token.len and token.len != 0
        return jet_scan_leading_u64(token, number) == token.len and token.len != 0

    cdef jet_status _first_lines(self, size_t *lines) noexcept:
        """Begin a block in `scratch` with the lines that all messages have; `lines` is their end."""
        jet_buf_clear(&self.scratch, 1 << 16)
        if self.fixed:
            lines[0] = len(self.fixed) - 2
            return jet_buf_append(&self.scratch, <const char *>self.fixed, lines[0])
        lines[0] = len(VERSION_LINE)
        return jet_buf_append(&self.scratch, <const char *>VERSION_LINE, lines[0])

    cdef jet_status _last_lines(self, size_t lines, jet_span msg_id, bint auto_id) noexcept:
        """End the block in `scratch`, with an id if it has none; its own begin at `lines`."""
        cdef jet_span found
        cdef jet_span name = span_of_bytes(ID_NAME)
        cdef jet_status status = JET_OK
        self.has_id = self.fixed_has_id or (
            jet_buf_len(&self.scratch) > lines
            and jet_header_find(span_of(jet_buf_ptr(&self.scratch), jet_buf_len(&self.scratch)), name,
                                &found))
        if not self.has_id and msg_id.len:
            status = jet_header_append(&self.scratch, name, msg_id)
            self.has_id = True
        elif not self.has_id and auto_id and self.id_len != 0:
            self._numbered_header()
            status = jet_buf_append(&self.scratch, self.id_block + self.id_line,
                                    self.header.len - self.id_line - 2)
        if jet_buf_len(&self.scratch) == <size_t>len(VERSION_LINE):
            self.header = span_of(NULL, 0)
            return status
        if status == JET_OK:
            status = jet_buf_append(&self.scratch, b"\r\n", 2)
        self.header = span_of(jet_buf_ptr(&self.scratch), jet_buf_len(&self.scratch))
        return status

    cdef void _numbered_header(self) noexcept:
        """Let `header` be the block that has an automatic id and nothing of the message's own."""
        cdef uint8_t *to = self.id_block + self.id_len
        memcpy(to, self.reply_text + self.prefix_len, self.digits)
        memcpy(to + self.digits, b"\r\n\r\n", 4)
        self.header = span_of(self.id_block, self.id_len + self.digits + 4)
        self.has_id = True
