"""Headers of received messages: the first value of a name is found without a Python frame."""

from cpython.unicode cimport PyUnicode_DecodeUTF8

from jetsync._core.csrc cimport jet_header_find, jet_span, span_of, span_of_bytes

from jetsync.headers import SEARCHED, Headers


cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(str text)
    const char *PyUnicode_AsUTF8AndSize(str text, Py_ssize_t *n) except NULL


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
