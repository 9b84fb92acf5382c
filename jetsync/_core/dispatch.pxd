from jetsync._core.inbound cimport Inbound
from jetsync._core.link cimport link_carried, link_due, link_group, link_queue, link_rest, link_waiter
from jetsync._core.mailbox cimport Mailbox


cdef class Task:
    cdef Mailbox mailbox
    cdef object callback
    cdef object report
    cdef object ended
    cdef object step
    cdef unsigned long thread   # that runs it; 0: none
    cdef bint has_begun

    cdef bint run(self, link_carried *carried, int *left) except -1
    cdef int move(self, Mailbox mailbox) except -1


cdef class Group:
    cdef link_group group
    cdef Inbound inbound
    cdef set tasks      # keeps them and their mailboxes alive

    cdef int forget(self, Task task) except -1
    cdef link_due _take(self, link_waiter *waiter, bint comes, bint sleeps,
                        link_queue **queue, link_carried *carried) noexcept
    cdef int _follow(self) except -1
    cdef int _run(self, Task task, link_carried *carried) except -1
    cdef link_rest _rest(self, Task task, bint goes_on) noexcept
