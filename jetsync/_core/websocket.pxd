from jetsync._core.link cimport link_websocket
cimport cython


@cython.final
cdef class WebSocket:
    cdef link_websocket link
    cdef readonly bint deflate   # whether messages are compressed
    cdef public size_t most      # plain bytes that one compressed message holds at most
    cdef object inflater         # of the compressed message that comes
    cdef bytes raw               # received, not decoded
    cdef bytes packed            # of the compressed message, not inflated
    cdef unsigned finals         # final blocks of the compressed message so far
    cdef bint full               # the inflater has given as much as it was asked for
    cdef bint final              # the message ends with `packed`

    cdef str fault(self)
    cdef size_t _inflate(self, list pieces, size_t room) except? 0
    cdef list _unpack(self, bytes data)


cpdef bint is_native(filter) noexcept
