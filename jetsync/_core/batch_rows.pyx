"""The frames of an atomic batch whose messages are the rows of an Arrow record batch."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t

from jetsync._core.arrow_rows cimport ArrowRows, Column, column_get
from jetsync._core.csrc cimport (
    jet_buf, jet_buf_append, jet_buf_clear, jet_buf_free, jet_buf_init, jet_buf_len, jet_buf_ptr,
    jet_encode_pub, jet_encode_u64, jet_header_append, jet_header_find, jet_span, span_of, span_of_bytes,
)
from jetsync._core.encoding cimport raise_status, too_large

from jetsync.errors import ConfigError


cdef enum:
    PIECE_BYTES = 256 << 10
    SCRATCH_BYTES = 64 << 10


cdef bytes ID_NAME = b"Nats-Msg-Id"
cdef bytes COMMIT = b"Nats-Batch-Commit: 1\r\n"
cdef tuple BATCH_NAMES = (b"Nats-Batch-Id", b"Nats-Batch-Sequence", b"Nats-Batch-Commit")


cdef int refuse_batch_headers(jet_span block, int64_t row) except -1:
    """Raise for a row with a batch header of its own: it could commit a part of the batch."""
    cdef jet_span found
    for name in BATCH_NAMES:
        if jet_header_find(block, span_of_bytes(name), &found):
            raise ConfigError(f"row {row} has a header {name.decode()}, which is for the batch itself")
    return 0


def encode_batch_rows(ArrowRows rows not None, str subject_column, bytes subject, str data_column,
                      str headers_column, str id_column, bytes begin not None, int64_t number,
                      bytes commit_reply, size_t max_payload, size_t max_line):
    """Return `[(frames, messages), ...]`: all rows as messages of an atomic batch, in pieces.

    `begin` begins each header block and ends with the name of the sequence's header, a colon and a
    blank; `number` is the first row's sequence in the batch. With `commit_reply` the last row commits
    the batch and is answered there. The subject is a column or, without one, constant. Raises
    ConfigError or MaxPayloadError for a row that cannot be sent, and gives nothing out then."""
    cdef Column subjects, data, ids
    cdef int64_t row, headers = -1
    cdef bint has_subjects = subject_column is not None, has_ids = id_column is not None
    cdef jet_span to = span_of_bytes(subject), msg_id, payload, block, found
    cdef jet_span id_name = span_of_bytes(ID_NAME), reply = span_of(NULL, 0)
    cdef jet_buf frames, lines
    cdef uint8_t digits[20]
    cdef size_t own
    cdef int64_t count = 0
    cdef list pieces = []
    rows.text_column(data_column, &data)
    if has_subjects:
        rows.text_column(subject_column, &subjects)
    if has_ids:
        rows.text_column(id_column, &ids)
    if headers_column is not None:
        headers = rows.check_headers(headers_column)
    jet_buf_init(&frames)
    jet_buf_init(&lines)
    try:
        for row in range(rows.length):
            if has_subjects:
                to = column_get(&subjects, row)
            jet_buf_clear(&lines, SCRATCH_BYTES)
            raise_status(jet_buf_append(&lines, <const char *>begin, len(begin)), to)
            raise_status(jet_buf_append(&lines, digits, jet_encode_u64(digits, number + row)), to)
            raise_status(jet_buf_append(&lines, b"\r\n", 2), to)
            own = jet_buf_len(&lines)
            if headers >= 0 and rows.append_headers(headers, row, &lines):
                # Only the lines of the row: the search needs no status line in front.
                refuse_batch_headers(span_of(jet_buf_ptr(&lines) + own, jet_buf_len(&lines) - own), row)
            if has_ids:
                msg_id = column_get(&ids, row)
                if msg_id.len == 0:
                    raise ConfigError(f"column {id_column!r} holds no message id in row {row}")
                block = span_of(jet_buf_ptr(&lines), jet_buf_len(&lines))
                if jet_buf_len(&lines) == own or not jet_header_find(block, id_name, &found):
                    raise_status(jet_header_append(&lines, id_name, msg_id), to)
            if commit_reply and row == rows.length - 1:
                raise_status(jet_buf_append(&lines, <const char *>COMMIT, len(COMMIT)), to)
                reply = span_of_bytes(commit_reply)
            raise_status(jet_buf_append(&lines, b"\r\n", 2), to)
            payload = column_get(&data, row)
            if jet_buf_len(&lines) + payload.len > max_payload:
                too_large(jet_buf_len(&lines) + payload.len, max_payload)
            block = span_of(jet_buf_ptr(&lines), jet_buf_len(&lines))
            raise_status(jet_encode_pub(&frames, to, reply, block, payload, max_line), to)
            count += 1
            if jet_buf_len(&frames) >= PIECE_BYTES:
                pieces.append(((<const char *>jet_buf_ptr(&frames))[:jet_buf_len(&frames)], count))
                jet_buf_clear(&frames, 2 * PIECE_BYTES)
                count = 0
        if count:
            pieces.append(((<const char *>jet_buf_ptr(&frames))[:jet_buf_len(&frames)], count))
        return pieces
    finally:
        jet_buf_free(&frames)
        jet_buf_free(&lines)
