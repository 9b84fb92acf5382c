# Waiting with the interpreter's lock given up: Ctrl-C works in every wait.
# The C library csrc/link has the locks and the wake-ups. A wait there ends at a signal too; the
# functions here run Python's signal handlers and wait on. None of them is called with a mutex held.
from cpython.exc cimport PyErr_CheckSignals
from libc.stdlib cimport calloc, free

from jetsync._core.link cimport (
    LINK_SIGNAL, LINK_WOKEN, link_now, link_result, link_turn, link_turn_free, link_turn_init,
    link_turn_is_lost, link_turn_join, link_turn_leave, link_turn_try, link_turn_withdraw,
    link_waiter, link_wakeup, link_wakeup_free, link_wakeup_sleep,
)


# Seconds (30 years): a longer wait is one without limit.
cdef enum:
    ENDLESS = 1000000000


# A lock that a holder may keep for long: waiters get it in the order in which they came.
ctypedef link_turn *Lock


cdef inline double monotonic() noexcept nogil:
    return link_now()


cdef inline Lock new_lock() except NULL:
    cdef Lock lock = <Lock>calloc(1, sizeof(link_turn))
    if lock == NULL:
        raise MemoryError("no more locks")
    link_turn_init(lock)
    return lock


cdef inline void free_lock(Lock lock) noexcept:
    if lock != NULL:
        link_turn_free(lock)
        free(lock)


cdef inline bint try_lock(Lock lock) noexcept nogil:
    return link_turn_try(lock)


cdef inline void unlock(Lock lock) noexcept nogil:
    link_turn_leave(lock)


cdef inline int acquire(Lock lock, double deadline) except -1:
    """Take a lock before `deadline` (monotonic; negative: no limit). Returns 0 when time is up.

    The GIL is released while waiting; a signal handler that raises ends the wait.
    """
    return 1 if link_turn_try(lock) else _acquire_slowly(lock, deadline)


cdef inline int _acquire_slowly(Lock lock, double deadline) except -1:
    cdef link_waiter waiter
    cdef link_result got
    if link_turn_join(lock, &waiter):
        return 1
    while True:
        with nogil:
            got = link_wakeup_sleep(&waiter.wakeup, deadline)
        if got == LINK_WOKEN:
            link_wakeup_free(&waiter.wakeup)
            return 1
        if got != LINK_SIGNAL or link_turn_is_lost(lock, &waiter):
            return link_turn_withdraw(lock, &waiter)
        try:
            PyErr_CheckSignals()
        except BaseException:
            if link_turn_withdraw(lock, &waiter):
                link_turn_leave(lock)
            raise
        if link_turn_is_lost(lock, &waiter):  # the handler forked, and this is the child
            return 0


cdef inline double deadline_of(object timeout) except? -2:
    """Seconds from now to a point in time; None, infinite and endless ones: no limit (-1)."""
    if timeout is None:
        return -1
    cdef double seconds
    try:
        seconds = timeout
    except OverflowError:  # an int that no double can hold
        return -1 if timeout > 0 else monotonic()
    if seconds > ENDLESS:
        return -1
    return monotonic() + max(seconds, 0.0)
