"""Gil: waits for a link that keep the GIL where a thread computes. Binds link_keep."""

from jetsync._core.link cimport (
    LINK_TIMEOUT, link_inbound, link_inbound_follow, link_inbound_is_near, link_inbound_leave,
    link_inbound_waited, link_keep_for, link_keep_kept, link_keep_returned, link_missing, link_result,
    link_wakeup, link_wakeup_sleep,
)
from jetsync._core.sync cimport monotonic

from sys import getswitchinterval

cdef double FOLLOW = 0.02  # seconds that a taker reads the link; then the reader has to wake it


cdef double kept_until(link_inbound *reader, double now, double deadline) noexcept:
    """Until when a wait for the link that begins `now` keeps the GIL; `now`: it does not."""
    cdef double until = now
    if link_inbound_is_near(reader):
        until += link_keep_for(&KEEP, now)
    return deadline if 0 < deadline < until else until


cdef link_result sleep_kept(link_inbound *reader, link_wakeup *wakeup, double deadline) noexcept:
    """Sleep with the GIL where a thread computes, not for long: until the thread that reads the link,
    without Python, wakes this one. LINK_TIMEOUT also where it does not sleep."""
    cdef double began = monotonic(), keep = kept_until(reader, began, deadline), slept
    if keep <= began:
        return LINK_TIMEOUT
    cdef link_result got = link_wakeup_sleep(wakeup, keep)
    slept = monotonic() - began
    link_keep_kept(&KEEP, slept)
    if got == LINK_TIMEOUT:
        link_inbound_waited(reader, slept)
    return got


cdef int returned(double woke, double kept_before) except -1:
    """A wait without the GIL ended at `woke`; see link_keep_returned."""
    link_keep_returned(&KEEP, woke, monotonic(), kept_before, getswitchinterval())
    return 0


cdef int follow(link_inbound *reader, link_missing missing, void *whom, double deadline,
                bint gather) except -1:
    """Read the link in this thread until nothing is `missing` for `whom`, not for long, and leave the
    reader's turn, which the caller has. With `gather` it is read once for all that is missing. Keeps
    the GIL at first, where a thread computes."""
    cdef double began = monotonic(), until = began + FOLLOW, keep, now, woke, kept_before
    cdef bint done
    if 0 < deadline < until:
        until = deadline
    keep = kept_until(reader, began, until)
    if keep > began:
        done = link_inbound_follow(reader, missing, whom, keep, gather)
        now = monotonic()
        link_keep_kept(&KEEP, now - began)
        if done or now < keep:  # else a signal came, or something was left to the reader
            link_inbound_leave(reader, now - began)
            return 0
    kept_before = KEEP.kept
    with nogil:
        link_inbound_follow(reader, missing, whom, until, gather)
        woke = monotonic()
        link_inbound_leave(reader, woke - began)
    return returned(woke, kept_before)


def kept():
    """The seconds for which waits of this process have kept the GIL so far."""
    return KEEP.kept
