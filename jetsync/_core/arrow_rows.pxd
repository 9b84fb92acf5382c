from libc.stdint cimport int32_t, int64_t, uint8_t

from jetsync._core.arrow cimport ArrowArray, ArrowSchema
from jetsync._core.csrc cimport jet_buf, jet_span


# One text or binary column of a record batch that another library made.
cdef struct Column:
    const uint8_t *validity    # NULL: no nulls
    const void *offsets
    const uint8_t *data
    int64_t start
    bint wide                  # 64-bit offsets


# A column map<text, text> or map<text, list<text>>: rows -> entries (name, value or list) -> values.
cdef struct HeaderColumn:
    const uint8_t *validity    # NULL: no nulls
    const int32_t *offsets
    int64_t start
    int64_t entries            # where the entries begin in their own columns
    Column name
    Column value
    const int32_t *lists       # where each entry's values begin; NULL: one value each
    const uint8_t *lists_validity
    int64_t lists_start


cdef jet_span column_get(Column *c, int64_t row) noexcept nogil
cdef bint column_is_null(Column *c, int64_t row) noexcept nogil

cdef void header_range(HeaderColumn *c, int64_t row, int64_t *first, int64_t *last) noexcept nogil


cdef class ArrowRows:
    cdef object schema_capsule
    cdef object array_capsule
    cdef ArrowSchema *schema
    cdef ArrowArray *array
    cdef readonly int64_t length

    cdef int64_t find(self, str name) except -1
    cdef int text_column(self, str name, Column *out) except -1
    cdef int header_column(self, int64_t child, HeaderColumn *out) except -1
    cdef int append_headers(self, int64_t child, int64_t row, jet_buf *out) except -1
    cdef int _append(self, jet_span name, jet_span value, jet_buf *out) except -1
