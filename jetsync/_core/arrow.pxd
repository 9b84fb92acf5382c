from libc.stdint cimport int64_t

from jetsync._core.csrc cimport jet_chain


# The Arrow C data interface (arrow.apache.org/docs/format/CDataInterface.html).
cdef struct ArrowSchema:
    const char *format
    const char *name
    const char *metadata
    int64_t flags
    int64_t n_children
    ArrowSchema **children
    ArrowSchema *dictionary
    void (*release)(ArrowSchema *) noexcept nogil
    void *private_data

cdef struct ArrowArray:
    int64_t length
    int64_t null_count
    int64_t offset
    int64_t n_buffers
    int64_t n_children
    const void **buffers
    ArrowArray **children
    ArrowArray *dictionary
    void (*release)(ArrowArray *) noexcept nogil
    void *private_data


cdef void release_schema(ArrowSchema *s) noexcept nogil
cdef tuple export_chain(jet_chain *chain, object columns, bint text_headers, bint microseconds,
                        bint stored)
