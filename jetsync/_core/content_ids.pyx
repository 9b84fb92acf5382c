"""ContentIds: message ids made of what the rows hold, a whole record batch at a time."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from jetsync._core.arrow_rows cimport ArrowRows, Column, HeaderColumn, column_get, header_range
from jetsync._core.csrc cimport (
    JET_ERR_MEMORY, JET_ERR_SIZE, JET_OK, JET_TALLY_KEY, jet_blake2, jet_blake2_add, jet_blake2_end,
    jet_blake2_init, jet_buf, jet_buf_clear, jet_buf_commit, jet_buf_free, jet_buf_init,
    jet_buf_len, jet_buf_ptr, jet_buf_reserve, jet_encode_u64, jet_span, jet_status, jet_tally,
    jet_tally_add, jet_tally_clear, jet_tally_free, jet_tally_init, span_of, span_of_bytes,
)
from jetsync._core.sync cimport Lock, acquire, free_lock, new_lock, unlock

from jetsync.errors import ConfigError

cdef enum:
    DIGITS = 20                # of any 64 bit number

cdef const char *HEX = "0123456789abcdef"


# The parts of a row's content.
cdef struct Content:
    jet_blake2 fixed           # before anything of the row
    Column data
    Column subjects
    bint has_subjects
    HeaderColumn headers
    bint has_headers


cdef void add_sized(jet_blake2 *state, jet_span s) noexcept nogil:
    add_number(state, <uint32_t>s.len)
    jet_blake2_add(state, s)


cdef void add_number(jet_blake2 *state, uint32_t number) noexcept nogil:
    """Four bytes, little-endian on every machine."""
    cdef uint8_t b[4]
    b[0], b[1], b[2], b[3] = number & 255, number >> 8 & 255, number >> 16 & 255, number >> 24
    jet_blake2_add(state, span_of(b, 4))


cdef void digest_row(Content *c, int64_t row, uint8_t *digest) noexcept nogil:
    """Add a size before each part but the last, so that rows with other borders between parts
    differ."""
    cdef jet_blake2 state = c.fixed
    cdef int64_t i, first, last
    if c.has_subjects:
        add_sized(&state, column_get(&c.subjects, row))
    if c.has_headers:
        header_range(&c.headers, row, &first, &last)
        add_number(&state, <uint32_t>(last - first))
        for i in range(first, last):
            add_sized(&state, column_get(&c.headers.name, i))
            add_sized(&state, column_get(&c.headers.value, i))
    jet_blake2_add(&state, column_get(&c.data, row))
    jet_blake2_end(&state, digest)


cdef int read_content(Content *c, ArrowRows rows, str data, str subject_column, bytes subject,
                      str headers_column) except -1:
    """Find the parts of the rows of a batch."""
    jet_blake2_init(&c.fixed, JET_TALLY_KEY)
    rows.text_column(data, &c.data)
    c.has_subjects = subject_column is not None
    if c.has_subjects:
        rows.text_column(subject_column, &c.subjects)
    else:
        jet_blake2_add(&c.fixed, span_of_bytes(subject))
    c.has_headers = headers_column is not None
    if c.has_headers:
        rows.header_column(rows.check_headers(headers_column), &c.headers)
        if c.headers.lists != NULL:
            raise ConfigError("ids by content need headers of one value each, not lists")
    return 0


def digest_rows(ArrowRows rows not None, str data, str subject_column, bytes subject,
                str headers_column):
    """Return a number of 64 bits that stands for the rows of a batch in any order: the sum of what
    stands for each. Numbers of several batches are added, modulo 2**64. The arguments are those of
    `ContentIds.column`."""
    cdef Content c
    cdef int64_t row
    cdef int i
    cdef uint64_t total = 0, one
    cdef uint8_t digest[JET_TALLY_KEY]
    read_content(&c, rows, data, subject_column, subject, headers_column)
    with nogil:
        for row in range(rows.length):
            digest_row(&c, row, digest)
            one = 0
            for i in range(8):
                one = one << 8 | digest[i]
            total += one
    return total


cdef class ContentIds:
    """Ids ``PREFIX.DIGEST.COUNT``; the count tells equal rows apart. Safe in several threads.

    Beyond `limit` different rows counting starts anew, and ids are ``PREFIX.DIGEST.gN-COUNT``.
    """
    cdef Lock guard
    cdef bytes owner           # of the prefix
    cdef jet_span prefix
    cdef uint64_t generation
    cdef jet_tally tally
    cdef jet_buf text

    def __cinit__(self, bytes prefix not None, size_t limit):
        self.guard = new_lock()
        self.owner = prefix
        self.prefix = span_of_bytes(prefix)
        jet_tally_init(&self.tally, limit if limit > 0 else 1)
        jet_buf_init(&self.text)

    def __dealloc__(self):
        jet_tally_free(&self.tally)
        jet_buf_free(&self.text)
        free_lock(self.guard)

    def column(self, ArrowRows rows not None, str data, str subject_column, bytes subject,
               str headers_column):
        """Return the ids of a batch as a text column: 64-bit offsets, and the text.

        The subject is a column or, without one, constant. Headers have one value each."""
        cdef Content c
        cdef int64_t child
        cdef jet_status status
        cdef bytes offsets
        cdef int64_t *ends
        read_content(&c, rows, data, subject_column, subject, headers_column)
        offsets = PyBytes_FromStringAndSize(NULL, (rows.length + 1) * <Py_ssize_t>sizeof(int64_t))
        ends = <int64_t *>PyBytes_AS_STRING(offsets)
        acquire(self.guard, -1)
        try:
            with nogil:
                status = self._fill(&c, rows.length, ends)
            if status != JET_OK:
                raise MemoryError("no memory for message ids")
            return offsets, (<const char *>jet_buf_ptr(&self.text))[:jet_buf_len(&self.text)]
        finally:
            jet_buf_clear(&self.text, 1 << 20)
            unlock(self.guard)

    cdef jet_status _fill(self, Content *c, int64_t rows, int64_t *offsets) noexcept nogil:
        cdef int64_t row
        cdef jet_status status
        cdef uint32_t count
        cdef uint8_t digest[JET_TALLY_KEY]
        offsets[0] = 0
        for row in range(rows):
            digest_row(c, row, digest)
            status = jet_tally_add(&self.tally, digest, &count)
            if status == JET_ERR_SIZE:
                jet_tally_clear(&self.tally)
                self.generation += 1
                status = jet_tally_add(&self.tally, digest, &count)
            if status == JET_OK:
                status = self._write(digest, count)
            if status != JET_OK:
                return status
            offsets[row + 1] = <int64_t>jet_buf_len(&self.text)
        return JET_OK

    cdef jet_status _write(self, const uint8_t *digest, uint32_t count) noexcept nogil:
        """Append one id to the text."""
        cdef int i
        cdef uint8_t *start
        cdef uint8_t *to
        start = to = jet_buf_reserve(&self.text, self.prefix.len + 2 * JET_TALLY_KEY + 2 * DIGITS + 4)
        if to == NULL:
            return JET_ERR_MEMORY
        memcpy(to, self.prefix.ptr, self.prefix.len)
        to += self.prefix.len
        to[0] = c'.'
        to += 1
        for i in range(JET_TALLY_KEY):
            to[0] = HEX[digest[i] >> 4]
            to[1] = HEX[digest[i] & 15]
            to += 2
        to[0] = c'.'
        to += 1
        if self.generation:
            to[0] = c'g'
            to += 1 + jet_encode_u64(to + 1, self.generation)
            to[0] = c'-'
            to += 1
        to += jet_encode_u64(to, count)
        jet_buf_commit(&self.text, to - start)
        return JET_OK
