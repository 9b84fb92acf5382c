# Locks and waiting that work with and without the GIL.
#
# Two kinds. A Lock where somebody may wait long: it waits on a PyThread lock, whose timed wait
# reports a signal instead of swallowing it, which is what makes Ctrl-C work in every wait. Leaf locks
# (Outbound.lock, a mailbox's lock, the route lock) are mutexes: their holders keep them for
# microseconds.
#
# Rule: no Python API is called while a leaf lock is held. So its holder never needs the GIL, and
# waiting for it with the GIL held cannot deadlock.
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec


cdef extern from "pythread.h" nogil:
    ctypedef void *PyThread_type_lock
    ctypedef enum PyLockStatus:
        PY_LOCK_FAILURE
        PY_LOCK_ACQUIRED
        PY_LOCK_INTR

    PyThread_type_lock PyThread_allocate_lock()
    void PyThread_free_lock(PyThread_type_lock)
    int PyThread_acquire_lock(PyThread_type_lock, int waitflag)
    void PyThread_release_lock(PyThread_type_lock)
    PyLockStatus PyThread_acquire_lock_timed(PyThread_type_lock, long long microseconds,
                                             int intr_flag)


cdef extern from "pthread.h" nogil:
    ctypedef struct Leaf "pthread_mutex_t":
        pass
    int pthread_mutex_init(Leaf *, void *)
    int pthread_mutex_destroy(Leaf *)
    int pthread_mutex_lock(Leaf *)
    int pthread_mutex_unlock(Leaf *)


cdef extern from * nogil:
    """
    #include <stddef.h>
    #include <stdint.h>
    /* Counts that one thread at a time writes and others read without a lock. */
    static inline void jetsync_add(uint64_t *to, uint64_t n) {
        __atomic_store_n(to, *to + n, __ATOMIC_RELAXED);
    }
    static inline uint64_t jetsync_count(const uint64_t *from) {
        return __atomic_load_n(from, __ATOMIC_RELAXED);
    }
    static inline void jetsync_store(size_t *to, size_t value) {
        __atomic_store_n(to, value, __ATOMIC_RELAXED);
    }
    static inline size_t jetsync_load(const size_t *from) {
        return __atomic_load_n(from, __ATOMIC_RELAXED);
    }
    /* The state of a lock. Returns what it was before. */
    static inline int jetsync_swap(int *state, int value) {
        return __atomic_exchange_n(state, value, __ATOMIC_ACQ_REL);
    }
    static inline int jetsync_take_free(int *state) {
        int free_ = 0;
        return __atomic_compare_exchange_n(state, &free_, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
    }
    """
    int jetsync_swap(int *state, int value)
    bint jetsync_take_free(int *state)
    void jetsync_add(uint64_t *to, uint64_t n)
    uint64_t jetsync_count(const uint64_t *from_)
    void jetsync_store(size_t *to, size_t value)
    size_t jetsync_load(const size_t *from_)


# Seconds (30 years): a longer wait is one without limit.
cdef enum:
    ENDLESS = 1000000000


# A place where one thread waits until another opens it. `waiting` belongs to the lock that guards
# the condition; several waiters take turns on a lock of their own in front of the gate.
cdef struct Gate:
    PyThread_type_lock sem
    bint waiting


# Taking a free one is a single atomic step; a PyThread lock alone would look at the clock first.
cdef enum:
    FREE = 0
    TAKEN = 1
    WANTED = 2               # taken, and somebody may wait

cdef struct LockState:
    int state
    PyThread_type_lock sem   # released once for each time that a wanted lock becomes free

ctypedef LockState *Lock


cdef inline double monotonic() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec + now.tv_nsec * 1e-9


cdef inline PyThread_type_lock new_sem() except NULL:
    """A PyThread lock that nobody passes before it is released."""
    cdef PyThread_type_lock sem = PyThread_allocate_lock()
    if sem == NULL:
        raise MemoryError("no more locks")
    PyThread_acquire_lock(sem, 1)
    return sem


cdef inline Lock new_lock() except NULL:
    cdef Lock lock = <Lock>calloc(1, sizeof(LockState))
    if lock == NULL:
        raise MemoryError("no more locks")
    try:
        lock.sem = new_sem()
    except BaseException:
        free(lock)
        raise
    return lock


cdef inline void free_lock(Lock lock) noexcept:
    if lock != NULL:
        PyThread_free_lock(lock.sem)
        free(lock)


cdef inline int leaf_init(Leaf *leaf) except -1:
    if pthread_mutex_init(leaf, NULL):
        raise MemoryError("no more locks")
    return 0


cdef inline void leaf_free(Leaf *leaf) noexcept:
    pthread_mutex_destroy(leaf)


cdef inline void lock_leaf(Leaf *leaf) noexcept nogil:
    """Take a leaf lock; its holders keep it for microseconds and never wait for anything."""
    pthread_mutex_lock(leaf)


cdef inline void unlock_leaf(Leaf *leaf) noexcept nogil:
    pthread_mutex_unlock(leaf)


cdef inline bint try_lock(Lock lock) noexcept nogil:
    return jetsync_take_free(&lock.state)


cdef inline void lock_nogil(Lock lock) noexcept nogil:
    """Take a lock without the GIL, however long it takes."""
    if not try_lock(lock):
        while jetsync_swap(&lock.state, WANTED) != FREE:
            PyThread_acquire_lock(lock.sem, 1)


cdef inline int acquire(Lock lock, double deadline) except -1:
    """Take a lock before `deadline` (monotonic; negative: no limit). Returns 0 when time is up.

    The GIL is released while waiting; a signal handler that raises ends the wait.
    """
    if not try_lock(lock):
        while jetsync_swap(&lock.state, WANTED) != FREE:
            if not sem_wait(lock.sem, deadline):
                return 0
    return 1


cdef inline void unlock(Lock lock) noexcept nogil:
    if jetsync_swap(&lock.state, FREE) == WANTED:
        # Whoever waited may have given up: then the next one wakes once for nothing.
        PyThread_release_lock(lock.sem)


cdef inline int gate_init(Gate *gate) except -1:
    gate.waiting = False
    gate.sem = new_sem()
    return 0


cdef inline void gate_free(Gate *gate) noexcept:
    if gate.sem != NULL:
        PyThread_free_lock(gate.sem)
    gate.sem = NULL


cdef inline void gate_open(Gate *gate) noexcept nogil:
    """Wake the waiter, if there is one. The caller holds the guarding lock."""
    if gate.waiting:
        gate.waiting = False
        PyThread_release_lock(gate.sem)


cdef inline bint gate_wait_nogil(Gate *gate, Leaf *guard) noexcept nogil:
    """Wait without limit and without the GIL. The caller holds `guard` and gets it back."""
    gate.waiting = True
    unlock_leaf(guard)
    PyThread_acquire_lock(gate.sem, 1)
    lock_leaf(guard)
    return True


cdef inline int sem_wait(PyThread_type_lock sem, double deadline) except -1:
    """Wait until `sem` is released, with the GIL given up. Returns 0 when time is up; a signal
    handler may raise."""
    cdef PyLockStatus status
    cdef long long us
    if PyThread_acquire_lock(sem, 0):
        return 1
    while True:
        us = -1
        if deadline >= 0:
            us = <long long>(min(deadline - monotonic(), 1e9) * 1e6)
            if us <= 0:
                return 0
        with nogil:
            status = PyThread_acquire_lock_timed(sem, us, 1)
        if status == PY_LOCK_ACQUIRED:
            return 1
        if status == PY_LOCK_INTR:
            PyErr_CheckSignals()


cdef inline int gate_wait(Gate *gate, Leaf *guard, double deadline) except -1:
    """Wait until the gate is opened. The caller holds `guard`, which is released meanwhile and
    **not** taken back. Returns 1 when opened, 0 when time is up; a signal may raise."""
    cdef int got
    gate.waiting = True
    unlock_leaf(guard)
    try:
        got = sem_wait(gate.sem, deadline)
    except BaseException:
        _leave(gate, guard)
        raise
    if not got:
        return _leave(gate, guard)
    return 1


cdef inline int _leave(Gate *gate, Leaf *guard) noexcept:
    """Stop waiting. Opened in this very moment counts as opened."""
    cdef bint opened
    lock_leaf(guard)
    opened = not gate.waiting
    gate.waiting = False
    if opened:
        PyThread_acquire_lock(gate.sem, 1)
    unlock_leaf(guard)
    return opened


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
