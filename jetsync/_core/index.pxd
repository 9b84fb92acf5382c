cimport cython


@cython.final
cdef class Index:
    cdef dict groups

    cpdef add(self, key, value)
    cpdef discard(self, key, value)
