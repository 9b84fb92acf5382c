from libc.stdint cimport int64_t

from jetsync._core.handles cimport Publishing
from jetsync._core.message cimport Msg
from jetsync._core.pull_line cimport PullLine
from jetsync._core.pull_window cimport Window
from jetsync._core.prefetch cimport PrefetchBuffer


cdef class PullLoop(PrefetchBuffer):
    cdef public object _port
    cdef public object _source
    cdef public Window _window
    cdef public PullLine _inbox
    cdef public object _error
    cdef public bint _stopped
    cdef public bint _draining
    cdef public bint _is_open
    cdef public bint _is_settled    # nothing has changed that a pull could be due for
    cdef public bint _came          # whether a message came since the last pull was sent
    cdef public double _expires
    cdef public double _heartbeat
    cdef public bint _is_interrupted    # the wait for a message ends without one
    cdef Publishing nc
    cdef PullLine told_inbox        # the inbox whose next check was told last: when,
    cdef double told_at
    cdef double told_since
    cdef double told_patience
    cdef bint is_told               # and whether that has not changed
    cdef dict group
    cdef bint is_lasting
    cdef int64_t more               # messages that the server had ready when it sent the last one
    cdef double came_at             # when messages came last,
    cdef double pace                # and how many come in a second, about; 0: not known
    cdef int64_t each               # bytes of a message, about
    cdef int64_t given              # how many messages were handed out together,
    cdef double given_at            # and when
    cdef double begun               # since when the next ones are waited for; 0: they are not

    cdef bint come_to_rest(self) except -1
    cdef bint plan_check(self, PullLine inbox, double last_put) noexcept
    cdef Msg poll(self)
    cdef Msg take_inside(self, deadline)
    cdef int receive(self, PullLine inbox, size_t count) except -1
    cdef int begin_waiting(self) except -1
    cdef int tell_window(self) except -1
    cdef int refill(self, double deadline) except -1
    cdef bint gather(self, PullLine inbox, int64_t limit, double until) except -1
