# When a wait, or a piece of work without Python, keeps the GIL. Binds link_keep.
from libc.stddef cimport size_t

from jetsync._core.link cimport (
    link_inbound, link_keep, link_keep_is_busy, link_missing, link_result, link_wakeup,
)
from jetsync._core.sync cimport monotonic

cdef link_keep KEEP  # of all waits of the process; guarded by the GIL


# Whether giving the GIL up for a moment costs a switch interval: beside a thread that computes.
cdef inline bint is_dear() noexcept:
    return link_keep_is_busy(&KEEP, monotonic())


# To copy or encode a batch of a MiB takes less than half a millisecond: not worth to give the GIL up.
# Four of them are not worth a switch interval.
cdef inline bint is_little(size_t size) noexcept:
    return size <= 1 << 20 or (size <= 4 << 20 and is_dear())


cdef int follow(link_inbound *reader, link_missing missing, void *whom, double deadline,
                bint gather) except -1
cdef link_result sleep_kept(link_inbound *reader, link_wakeup *wakeup, double deadline) noexcept
cdef int returned(double woke, double kept_before) except -1
