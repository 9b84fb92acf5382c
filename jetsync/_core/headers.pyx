"""Headers of received messages: the first value of a name is found without a Python frame."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

from jetsync._core.csrc cimport (
    jet_header_begin, jet_header_find, jet_header_iter, jet_header_next, jet_span, span_of,
    span_of_bytes,
)

from os import register_at_fork, urandom

from jetsync.headers import SEARCHED, Headers


cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(str text)
    const char *PyUnicode_AsUTF8AndSize(str text, Py_ssize_t *n) except NULL
    str PyUnicode_New(Py_ssize_t size, Py_UCS4 largest)
    uint8_t *PyUnicode_1BYTE_DATA(str text)


class ReceivedHeaders(Headers):
    """Headers as they came, which read their block in C. Everything else is as in `Headers`."""

    __slots__ = ()

    def get(self, name, default=None, /):
        """Return the first value of `name`, or `default` if there is none."""
        value = first(self, name)
        return default if value is None else value

    def __getitem__(self, name):
        value = first(self, name)
        if value is None:
            raise KeyError(name)
        return value

    def __contains__(self, name):
        return first(self, name) is not None


cdef Py_ssize_t LARGEST = SEARCHED


cdef object first(object headers, object name):
    """The first value of a name, or None."""
    cdef jet_span value
    cdef Py_ssize_t n
    cdef const char *text
    cdef bytes raw = headers._raw
    # A parsed block is looked up in its dict; a large block is parsed at its first use.
    if (headers._read is not None or len(raw) > LARGEST or not isinstance(name, str)
            or not PyUnicode_IS_ASCII(name)):
        return headers._first(name)
    text = PyUnicode_AsUTF8AndSize(name, &n)
    if not jet_header_find(span_of_bytes(raw), span_of(text, <size_t>n), &value):
        return None
    return PyUnicode_DecodeUTF8(<const char *>value.ptr, <Py_ssize_t>value.len, "surrogateescape")


cpdef object received(bytes raw):
    """Make headers of a block from the wire. Never raises: what cannot be read is counted."""
    headers = ReceivedHeaders.__new__(ReceivedHeaders)
    headers._raw = raw
    headers._read = None
    headers._malformed = 0
    return headers


cdef bint is_named(jet_span name, const char *lower, size_t length) noexcept nogil:
    """Whether this is the name of a header, in any case of its letters."""
    cdef size_t i
    if name.len != length:
        return False
    for i in range(length):
        if (name.ptr[i] | 0x20) != <uint8_t>lower[i]:
            return False
    return True


cdef bint read_hex(const uint8_t *text, size_t digits, uint64_t *found) noexcept nogil:
    """Read up to 16 lower-case hexadecimal digits. Returns whether there are no others."""
    cdef size_t i
    cdef uint8_t c
    found[0] = 0
    for i in range(digits):
        c = text[i]
        if c'0' <= c <= c'9':
            c = c - c'0'
        elif c'a' <= c <= c'f':
            c = c - c'a' + 10
        else:
            return False
        found[0] = found[0] << 4 | c
    return True


cdef struct Parent:
    uint64_t high, low  # of the id of the trace
    uint64_t span, flags


cdef bint read_parent(jet_span value, Parent *found) noexcept nogil:
    """Read a W3C traceparent of version 00. Returns whether it is one and names a span."""
    cdef const uint8_t *text = value.ptr
    return (
        value.len == PARENT and memcmp(text, b"00-", 3) == 0 and text[35] == c'-' and text[52] == c'-'
        and read_hex(text + 3, 16, &found.high) and read_hex(text + 19, 16, &found.low)
        and read_hex(text + 36, 16, &found.span) and read_hex(text + 53, 2, &found.flags)
        and found.span != 0 and (found.high != 0 or found.low != 0)
    )


def parent_texts(list blocks not None):
    """Return the first traceparent of each header block, one behind another, none twice in a row;
    :func:`read_parents` reads them. None where a block has a tracestate too, which is for a
    propagator to read.

    Many of them cost a copy each until they are asked for.
    """
    cdef bytes block, texts = PyBytes_FromStringAndSize(NULL, PARENT * len(blocks))
    cdef size_t n = 0
    for block in blocks:
        if not add_parent(span_of_bytes(block), PyBytes_AS_STRING(texts), &n):
            return None
    return texts[:n]


cdef bint add_parent(jet_span block, char *texts, size_t *n) noexcept nogil:
    """Put the first traceparent of a header block behind the others, unless it is the last one
    again. Returns False where the block has a tracestate."""
    cdef jet_header_iter it
    cdef jet_span name, value
    cdef bint first = True
    jet_header_begin(&it, block)
    while jet_header_next(&it, &name, &value):
        if is_named(name, b"tracestate", 10):
            return False
        if first and is_named(name, b"traceparent", 11):
            first = False
            if value.len == PARENT and (
                n[0] == 0 or memcmp(value.ptr, texts + n[0] - PARENT, PARENT) != 0
            ):
                memcpy(texts + n[0], value.ptr, PARENT)
                n[0] += PARENT
    return True


def read_parents(bytes texts not None):
    """Return `[(trace_id, span_id, flags), ...]` of what :func:`parent_texts` returned, each
    once."""
    cdef Parent parent
    cdef dict found = {}
    cdef Py_ssize_t n
    for n in range(0, PyBytes_GET_SIZE(texts), PARENT):
        if read_parent(span_of(PyBytes_AS_STRING(texts) + n, PARENT), &parent):
            found[context_of(&parent)] = None
    return list(found)


cdef tuple context_of(Parent *parent):
    return (<object>parent.high << 64) | parent.low, parent.span, parent.flags


def trace_parents(list blocks not None, bint baggage=False):
    """Return the W3C trace contexts of header blocks, each once.

    `[(trace_id, span_id, flags), ...]`, or None where a block has a tracestate too, or `baggage`
    where that counts: these are for a propagator to read.
    """
    cdef jet_header_iter it
    cdef jet_span name, value, last = span_of(NULL, 0)
    cdef Parent parent
    cdef bint first
    cdef bytes block
    cdef dict found = {}
    for block in blocks:
        first = True
        jet_header_begin(&it, span_of_bytes(block))
        while jet_header_next(&it, &name, &value):
            if is_named(name, b"tracestate", 10) or baggage and is_named(name, b"baggage", 7):
                return None
            if first and is_named(name, b"traceparent", 11):
                first = False
                if value.len == last.len and memcmp(value.ptr, last.ptr, value.len) == 0:
                    continue
                last = value  # of a block that the list holds
                if read_parent(value, &parent):
                    found[context_of(&parent)] = None
    return list(found)


cdef void write_hex(uint8_t *to, const uint8_t *octets, size_t n) noexcept nogil:
    """Write the hexadecimal digits of some bytes."""
    cdef const char *digits = b"0123456789abcdef"
    cdef size_t i
    for i in range(n):
        to[2 * i] = digits[octets[i] >> 4]
        to[2 * i + 1] = digits[octets[i] & 15]


cdef enum:
    BOTH_IDS = 24  # bytes of a trace id and the id of a span; all zeros once in 2**64 times
    AT_ONCE = 64   # one question to the system for each would cost more

cdef bytes drawn = b""
cdef Py_ssize_t left = 0


def unsampled_parent() -> str:
    """Return a W3C traceparent that is not sampled, with ids that no other has."""
    global drawn, left
    cdef const uint8_t *ids
    cdef uint8_t *to
    cdef str text
    if left == 0:
        drawn = urandom(BOTH_IDS * AT_ONCE)
        left = AT_ONCE
    left -= 1
    ids = <const uint8_t *>PyBytes_AS_STRING(drawn) + BOTH_IDS * left
    text = PyUnicode_New(PARENT, 127)
    to = PyUnicode_1BYTE_DATA(text)
    memcpy(to, b"00-", 3)
    write_hex(to + 3, ids, 16)
    to[35] = c"-"
    write_hex(to + 36, ids + 16, 8)
    memcpy(to + 52, b"-00", 3)
    return text


def forget_ids():
    """In a forked child: its parent uses the ids that were drawn."""
    global left
    left = 0


register_at_fork(after_in_child=forget_ids)
