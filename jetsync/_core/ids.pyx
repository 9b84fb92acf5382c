"""Ids: NUIDs, made in one step that no thread and no signal handler comes between."""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport uint8_t
from posix.unistd cimport getpid

from os import urandom


cdef extern from "Python.h":
    str PyUnicode_New(Py_ssize_t size, Py_UCS4 largest)
    uint8_t *PyUnicode_1BYTE_DATA(str text)


cdef enum:
    LENGTH = 22
    # Four times 62 digits: larger bytes are left out, so that no digit is more likely.
    EVEN = 248
    AT_ONCE = 64 * LENGTH  # one question to the system for each id would cost more

cdef const char *DIGITS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
cdef bytes drawn = b""
cdef Py_ssize_t left = 0
cdef int owner = 0  # the process that drew them; a forked child draws its own


def next_nuid() -> str:
    """Return a new NUID: 22 random base62 characters, 131 bits from the system's random generator.

    It is unique across machines and cannot be guessed, whatever other ids are known. Does not
    block; callable from any thread, signal handler or child.
    """
    global drawn, left, owner
    cdef str text = PyUnicode_New(LENGTH, 127)
    cdef uint8_t *to = PyUnicode_1BYTE_DATA(text)
    cdef uint8_t one
    cdef Py_ssize_t made = 0
    if owner != getpid():
        left = 0
    while made < LENGTH:
        if left == 0:
            drawn = urandom(AT_ONCE)
            left, owner = AT_ONCE, getpid()
        left -= 1
        one = PyBytes_AS_STRING(drawn)[left]
        if one < EVEN:
            to[made] = DIGITS[one % 62]
            made += 1
    return text
