"""Turns arguments into spans for the encoder, and its refusals into errors."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint64_t

from jetsync._counted import counted
from jetsync._core.csrc cimport (
    JET_ERR_HEADER, JET_ERR_LINE, JET_ERR_MEMORY, JET_ERR_SUBJECT, JET_MAX_CONTROL_LINE, jet_buf,
    jet_buf_append, jet_buf_free, jet_buf_init, jet_buf_len, jet_buf_ptr, jet_encode_pub,
    jet_encode_sub, jet_encode_unsub, jet_header_append, jet_subject_is_publishable,
    jet_subject_is_subscribable, span_of,
)

from jetsync.errors import ConfigError, MaxPayloadError


cdef int refuse(jet_status status, jet_span subject) except -1:
    """Raise the error of a status other than JET_OK."""
    shown = (<const char *>subject.ptr)[:subject.len].decode("utf-8", "replace") if subject.len else ""
    if status == JET_ERR_SUBJECT:
        rule = "it must not be empty, hold spaces, control characters or empty tokens"
        fits = jet_subject_is_subscribable(subject)
        if fits and jet_subject_is_publishable(subject):
            raise ConfigError(
                f"the reply or queue beside subject {shown!r} is not valid: {rule}; a reply has no "
                "wildcards either"
            )
        if fits:
            raise ConfigError(
                f"subject {shown!r} has a wildcard, and no message can be sent to that (or, for a "
                f"subscription, the queue beside it is not valid: {rule})"
            )
        raise ConfigError(f"subject {shown!r} is not valid: {rule}, nor wildcards when publishing")
    if status == JET_ERR_LINE:
        raise ConfigError(
            f"subject {shown[:40]!r}... and its reply or queue make a line longer than "
            "max_control_line, for which the server ends the link; use shorter ones, or raise "
            "max_control_line there and here"
        )
    if status == JET_ERR_HEADER:
        raise ConfigError("a header name or value holds characters that would break framing")
    if status == JET_ERR_MEMORY:
        raise MemoryError("no memory for the outbound buffer")
    raise ConfigError(f"message cannot be encoded (status {<int>status})")


cdef int too_large(size_t size, size_t limit) except -1:
    """Raise the error of a message that the server would not take."""
    raise MaxPayloadError(
        f"message of {counted(size, 'byte')} (headers and payload) is over the server's limit of {limit}; make "
        "it smaller or raise max_payload on the server"
    )


cdef bytes text_bytes(object value, str what):
    """A subject or name as bytes; surrogate escapes give back what came from the wire."""
    if not isinstance(value, str):
        raise ConfigError(f"{what} must be a str, not {type(value).__name__}")
    try:
        return (<str>value).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ConfigError(f"{what} holds a lone surrogate, which has no UTF-8 form") from None


cdef int view_of(object data, Py_buffer *view) except -1:
    """Borrow the bytes of a payload that is not `bytes`."""
    if isinstance(data, str):
        raise ConfigError("data must be bytes; encode text first, for example text.encode()")
    try:
        PyObject_GetBuffer(data, view, PyBUF_SIMPLE)
    except TypeError:
        raise ConfigError(f"data must be bytes-like, not {type(data).__name__}") from None
    except BufferError:
        raise ConfigError("data must be a contiguous buffer") from None
    return 0


cdef int append_header(jet_buf *block, object name, jet_span key, object value) except -1:
    """Append one value of a header. Raises ConfigError for what cannot be one."""
    cdef jet_status status
    cdef jet_span text
    cdef bytes owner = None
    if isinstance(value, bytes):
        text = span_of_bytes(<bytes>value)
    elif PyUnicode_CheckExact(value) and PyUnicode_IS_COMPACT_ASCII(value):
        text_span(value, "", &text)
    elif isinstance(value, str):
        owner = text_bytes(value, f"header {name!r}")
        text = span_of_bytes(owner)
    else:
        raise ConfigError(f"header {name!r} must be str or bytes, not {type(value).__name__}")
    status = jet_header_append(block, key, text)
    if status == JET_ERR_HEADER:
        raise ConfigError(
            f"header {name!r} is not valid: a name has visible ASCII without colon, a value no CR, "
            "LF or NUL"
        )
    return raise_status(status, span_of(NULL, 0))


def encode_headers(headers) -> bytes:
    """Return the header block of a mapping (name to value or list of values); b"" for nothing."""
    cdef jet_buf block
    cdef jet_span key
    cdef bytes owner
    cdef jet_span none = span_of(NULL, 0)
    if not headers:
        return b""
    # Nearly always it is a dict: what asks for other kinds of mappings takes longer than the rest.
    if type(headers) is not dict:
        if hasattr(headers, "to_dict"):
            headers = headers.to_dict()
        if not hasattr(headers, "items"):
            raise ConfigError(f"headers must be a mapping, not {type(headers).__name__}")
    jet_buf_init(&block)
    try:
        raise_status(jet_buf_append(&block, b"NATS/1.0\r\n", 10), none)
        for name, values in headers.items():
            owner = text_span(name, "a header name", &key)
            if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
                append_header(&block, name, key, values)
            else:
                for value in values:
                    append_header(&block, name, key, value)
        raise_status(jet_buf_append(&block, b"\r\n", 2), none)
        return (<const char *>jet_buf_ptr(&block))[:jet_buf_len(&block)]
    finally:
        jet_buf_free(&block)


cdef bytes taken(jet_buf *line):
    """The content of a buffer; frees it."""
    try:
        return (<const char *>jet_buf_ptr(line))[:jet_buf_len(line)] if jet_buf_len(line) else b""
    finally:
        jet_buf_free(line)


def encode_message(subject, data=b"", reply=None, bytes header=b"", max_payload=None,
                   size_t max_line=JET_MAX_CONTROL_LINE) -> bytes:
    """Return the PUB or HPUB frame of a message. Raises ConfigError when it has none, and
    MaxPayloadError when header and payload are more than `max_payload` bytes together."""
    cdef Py_buffer view
    cdef jet_buf frame
    cdef jet_span subject_span, payload
    cdef jet_span reply_span = span_of(NULL, 0)
    cdef bytes subject_owner = text_span(subject, "subject", &subject_span)
    cdef bytes reply_owner = None if reply is None else text_span(reply, "reply", &reply_span)
    jet_buf_init(&frame)
    try:
        data_span(data, &view, &payload)
        if max_payload is not None and payload.len + len(header) > <size_t>max_payload:
            too_large(payload.len + len(header), max_payload)
        raise_status(jet_encode_pub(&frame, subject_span, reply_span, span_of_bytes(header), payload,
                                    max_line),
                     subject_span)
        return taken(&frame)
    finally:
        PyBuffer_Release(&view)


cpdef bytes encode_sub(subject, queue, uint64_t sid, size_t max_line=JET_MAX_CONTROL_LINE):
    """Return the SUB line of a subscription; ConfigError when it has none."""
    cdef jet_buf line
    cdef bytes subject_bytes = text_bytes(subject, "subject")
    cdef bytes queue_bytes = b"" if queue is None else text_bytes(queue, "queue")
    jet_buf_init(&line)
    raise_status(jet_encode_sub(&line, span_of_bytes(subject_bytes), span_of_bytes(queue_bytes), sid,
                                max_line),
                 span_of_bytes(subject_bytes))
    return taken(&line)


cpdef bytes encode_unsub(uint64_t sid, uint64_t max_messages=0):
    """Return the UNSUB line that ends a subscription, at once or after `max_messages`."""
    cdef jet_buf line
    jet_buf_init(&line)
    raise_status(jet_encode_unsub(&line, sid, max_messages), span_of(NULL, 0))
    return taken(&line)
