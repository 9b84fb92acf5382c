# When a wait, or a piece of work without Python, keeps the GIL. Binds link_keep.
from libc.stddef cimport size_t

from jetsync._core.link cimport link_inbound, link_keep, link_served

cdef link_keep KEEP  # of all waits of the process; guarded by the GIL


# To copy or encode a batch of so many bytes takes less than half a millisecond: not worth a switch
# interval.
cdef inline bint is_little(size_t size) noexcept nogil:
    return size <= 1 << 20


cdef int follow(link_inbound *reader, link_served served, void *whom, double deadline) except -1
cdef int returned(double woke, double kept_before) except -1
