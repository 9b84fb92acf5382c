"""Gil: waits for a link that keep the GIL where a thread computes. Binds link_keep."""

from jetsync._core.link cimport (
    LINK_KEEP_LONGEST, link_inbound, link_inbound_follow, link_inbound_leave, link_keep_for,
    link_keep_kept, link_keep_returned, link_missing,
)
from jetsync._core.sync cimport monotonic

from sys import getswitchinterval

cdef double FOLLOW = 0.02  # seconds that a taker reads the link; then the reader has to wake it


cdef int returned(double woke, double kept_before) except -1:
    """A wait without the GIL ended at `woke`; see link_keep_returned."""
    link_keep_returned(&KEEP, woke, monotonic(), kept_before, getswitchinterval())
    return 0


cdef int follow(link_inbound *reader, link_missing missing, void *whom, double deadline,
                bint gather) except -1:
    """Read the link in this thread until nothing is `missing` for `whom`, not for long, and leave the
    reader's turn, which the caller has. With `gather` it is read once for all that is missing.

    Keeps the GIL at first, if the last wait on the link was a short one: of a far link, or of a
    subscription that is silent, nothing is expected within that time.
    """
    cdef double began = monotonic(), until = began + FOLLOW, keep = began, now, woke
    cdef double kept_before = KEEP.kept
    cdef bint done
    if 0 < deadline < until:
        until = deadline
    if reader.last_wait < LINK_KEEP_LONGEST:
        keep = min(until, began + link_keep_for(&KEEP, began))
    if keep > began:
        done = link_inbound_follow(reader, missing, whom, keep, gather)
        now = monotonic()
        link_keep_kept(&KEEP, now - began)
        if done or now < keep:  # else a signal came, or something was left to the reader
            link_inbound_leave(reader, now - began)
            return 0
    with nogil:
        link_inbound_follow(reader, missing, whom, until, gather)
        woke = monotonic()
        link_inbound_leave(reader, woke - began)
    return returned(woke, kept_before)


def kept():
    """The seconds for which waits of this process have kept the GIL so far."""
    return KEEP.kept
