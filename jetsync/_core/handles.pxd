from jetsync._core.futures cimport AsyncWindow
from jetsync._core.mailbox cimport Mailbox
from jetsync._core.outbound cimport Outbound


cdef class Publishing:
    cdef readonly Outbound _outbound
    cdef public object _refusal   # makes the error that every call raises, or None

    cdef bint _put_behind(self, subject, data, reply, bytes block) except -1


cdef class AsyncPublishing:
    cdef public Publishing _nc
    cdef public AsyncWindow _window   # None before the first call


cdef class Receiving:
    cdef readonly Publishing _nc
    cdef public Mailbox _mailbox
    cdef readonly object _callback
