"""BulkWindow: many publishes in flight with no Python object per message or acknowledgement."""

from cpython.buffer cimport PyBuffer_Release
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint64_t

from jetsync._core.arrow_rows cimport ArrowRows, Column, column_get
from jetsync._core.csrc cimport JET_OK, jet_buf_len, jet_span, span_of, span_of_bytes
from jetsync._core.encoding cimport data_span, raise_status, text_span
from jetsync._core.in_flight cimport CHUNK_BYTES, FREE, Chunk
from jetsync._core.window cimport PublishWindow

from jetsync._core.encoding import encode_headers
from jetsync.errors import ConfigError, MaxPayloadError


cdef enum:
    CHUNK_ROWS = 512


class ShapeError(ConfigError):
    """A row is not a message; the rows behind it are not tried."""


ShapeError.__module__ = "jetsync._core.bulk"


cdef class BulkWindow(PublishWindow):
    """A window that is filled from rows, a chunk at a time. One thread adds."""
    cdef readonly list rejected   # (number, error) of messages that were never sent

    def __init__(self, *args, **kwargs):
        self.rejected = []

    cdef int _reject(self, object error) except -1:
        """Give the next number to a message that cannot be sent."""
        self.entries[self.next_ & self.mask].state = FREE
        self.rejected.append((self.next_, error))
        self.next_ += 1
        return 0

    cdef bint _chunk_full(self) noexcept:
        cdef Chunk *chunk = &self.chunks[self.chunk_next & self.mask]
        return (chunk.open_ >= CHUNK_ROWS or jet_buf_len(&chunk.frames) >= CHUNK_BYTES
                or self.next_ - self.head >= self.capacity
                or self.open_bytes >= self.capacity_bytes)

    cdef int _open(self) except -1:
        """Begin a chunk of this thread's messages."""
        self._own()
        if self._begin() != JET_OK:
            raise MemoryError("no memory for a publish window")
        return 0

    cdef int _put(self, jet_span subject, jet_span payload) except -1:
        """Add the message that `numbering` has prepared."""
        cdef size_t size = self.numbering.header.len + payload.len
        if size > self.outbound.max_payload:
            self._raise_too_large(size)
        return raise_status(self._add(subject, payload), subject)

    cdef int _send(self) except -1:
        """Hand over the open chunk, behind what waits already."""
        self._advance()
        if self.chunks[self.chunk_next & self.mask].open_:
            self.chunk_next += 1
        self._flush(False)
        # This thread sends: waking the writer for each chunk costs more.
        self.outbound.send_now()
        return 0

    def add_rows(self, list rows not None, size_t start):
        """Add and send `(subject, data[, headers])` tuples from `start` on, one chunk at most.

        Returns how many were taken. A message that cannot be encoded goes to `rejected`."""
        cdef Py_buffer view
        cdef size_t i = start
        cdef jet_span subject_span, payload
        cdef bytes owner, block
        self._open()
        try:
            while i < <size_t>len(rows) and not self._chunk_full():
                row = rows[i]
                i += 1
                try:
                    if not isinstance(row, (tuple, list)) or not 2 <= len(row) <= 3:
                        raise ShapeError("a message is (subject, data) or (subject, data, headers)")
                    subject = row[0]
                    data = row[1]
                    owner = text_span(subject, "subject", &subject_span)
                    block = encode_headers(row[2]) if len(row) == 3 else b""
                    try:
                        data_span(data, &view, &payload)
                        raise_status(self.numbering.prepare(self.next_, block, span_of(NULL, 0),
                                                            True), subject_span)
                        self._put(subject_span, payload)
                    finally:
                        PyBuffer_Release(&view)
                except (ConfigError, MaxPayloadError) as error:
                    self._reject(error)
        finally:
            # Also after an unexpected error: added messages have their numbers and must be sent.
            self._send()
        return i - start

    def add_arrow(self, ArrowRows rows not None, str subject_column, bytes subject, str data_column,
                  str headers_column, str id_column, int64_t start):
        """Add and send rows of a record batch from `start` on, one chunk at most.

        The subject is a column or, without one, constant. Returns how many rows were taken."""
        cdef Column subjects, data, ids
        cdef int64_t row = start
        cdef int64_t headers = -1
        cdef bint has_subjects = subject_column is not None, has_ids = id_column is not None
        cdef jet_span subject_span = span_of_bytes(subject), id_span
        rows.text_column(data_column, &data)
        if has_subjects:
            rows.text_column(subject_column, &subjects)
        if has_ids:
            rows.text_column(id_column, &ids)
        if headers_column is not None:
            headers = rows.check_headers(headers_column)
        self._open()
        try:
            while row < rows.length and not self._chunk_full():
                try:
                    if has_subjects:
                        subject_span = column_get(&subjects, row)
                    id_span = column_get(&ids, row) if has_ids else span_of(NULL, 0)
                    if has_ids and id_span.len == 0:
                        raise ConfigError(f"column {id_column!r} holds no message id in row {row}")
                    self.numbering.prepare_row(self.next_, id_span, rows, headers, row)
                    self._put(subject_span, column_get(&data, row))
                except (ConfigError, MaxPayloadError) as error:
                    self._reject(error)
                row += 1
        finally:
            self._send()
        return row - start
