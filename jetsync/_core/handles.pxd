from jetsync._core.outbound cimport Outbound


cdef class Publishing:
    cdef readonly Outbound _outbound
    cdef public object _refusal   # makes the error that every call raises, or None
