from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint64_t

from jetsync._core.arrow_rows cimport ArrowRows
from jetsync._core.csrc cimport jet_buf, jet_span, jet_status, jet_token_key


cdef class Numbering:
    cdef jet_span reply           # of the message prepared last, as the next two
    cdef jet_span header          # its whole block, wherever it is; empty: none
    cdef bint has_id
    cdef jet_token_key key
    cdef bint secret              # whether there is a key
    cdef uint8_t *reply_text      # the prefix and the token
    cdef size_t prefix_len, digits
    cdef bytes fixed              # the block that every message has; empty: none
    cdef bint fixed_has_id
    cdef uint8_t *id_block        # the same up to an automatic id's number, and room for it
    cdef size_t id_line, id_len   # where the id's line begins, and the number; 0: no such ids
    cdef jet_buf scratch          # a block that has to be put together

    cdef jet_status prepare(self, uint64_t number, bytes block, jet_span msg_id,
                            bint auto_id) noexcept
    cdef int prepare_row(self, uint64_t number, jet_span msg_id, ArrowRows rows, int64_t headers,
                         int64_t row) except -1
    cdef bint read(self, jet_span token, uint64_t *number) noexcept
    cdef void _number(self, uint64_t number) noexcept
    cdef void _numbered_header(self) noexcept
    cdef jet_status _first_lines(self, size_t *lines) noexcept
    cdef jet_status _last_lines(self, size_t lines, jet_span msg_id, bint auto_id) noexcept
