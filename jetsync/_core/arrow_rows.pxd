from libc.stdint cimport int64_t, uint8_t

from jetsync._core.arrow cimport ArrowArray, ArrowSchema
from jetsync._core.csrc cimport jet_buf, jet_span


# One text or binary column of somebody else's record batch.
cdef struct Column:
    const uint8_t *validity    # NULL: no nulls
    const void *offsets
    const uint8_t *data
    int64_t start
    bint wide                  # 64-bit offsets


cdef jet_span column_get(Column *c, int64_t row) noexcept nogil
cdef bint column_is_null(Column *c, int64_t row) noexcept nogil


cdef class ArrowRows:
    cdef object schema_capsule
    cdef object array_capsule
    cdef ArrowSchema *schema
    cdef ArrowArray *array
    cdef readonly int64_t length

    cdef int64_t find(self, str name) except -1
    cdef int text_column(self, str name, Column *out) except -1
    cdef int append_headers(self, int64_t child, int64_t row, jet_buf *out) except -1
    cdef int _append(self, jet_span name, jet_span value, jet_buf *out) except -1
