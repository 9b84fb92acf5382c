from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport uint64_t

from jetsync._core.csrc cimport JET_OK, jet_span, jet_status, span_of, span_of_bytes


cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    void *PyUnicode_1BYTE_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)


cdef extern from *:
    """
    static inline void no_view(Py_buffer *view) { view->obj = NULL; }
    """
    void no_view(Py_buffer *view)


cdef int refuse(jet_status status, jet_span subject) except -1
cdef int too_large(size_t size, size_t limit) except -1
cdef bytes text_bytes(object value, str what)
cpdef bytes encode_sub(object subject, object queue, uint64_t sid, size_t max_line=*)
cpdef bytes encode_unsub(uint64_t sid, uint64_t max_messages=*)
cdef int view_of(object data, Py_buffer *view) except -1


cdef inline int raise_status(jet_status status, jet_span subject) except -1:
    """Turn a refusal of the encoder into its error. Nothing was appended."""
    return 0 if status == JET_OK else refuse(status, subject)


cdef inline bytes text_span(object value, str what, jet_span *span):
    """Let `span` be the bytes of a subject or name. Returns what has to live as long as the span,
    or None when that is the str itself: nothing is copied then."""
    cdef bytes owner = None
    if PyUnicode_CheckExact(value) and PyUnicode_IS_COMPACT_ASCII(value):
        span[0] = span_of(PyUnicode_1BYTE_DATA(value), PyUnicode_GET_LENGTH(value))
    else:
        owner = text_bytes(value, what)
        span[0] = span_of_bytes(owner)
    return owner


cdef inline int data_span(object data, Py_buffer *view, jet_span *span) except -1:
    """Let `span` be the bytes of a payload. `view` is to be given to PyBuffer_Release when the span
    is not needed any more, also when this raises."""
    no_view(view)
    if PyBytes_CheckExact(data):
        span[0] = span_of(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    else:
        view_of(data, view)
        span[0] = span_of(view.buf, view.len)
    return 0
