"""Dispatch: threads that call callbacks with the messages of mailboxes. Binds link_group."""

from jetsync._core.gil cimport follow
from jetsync._core.inbound cimport Inbound
from jetsync._core.link cimport (
    LINK_DUE_BUSY, LINK_DUE_END, LINK_DUE_NONE, LINK_DUE_SLEEP, LINK_REST_BUSY, LINK_REST_MORE,
    LINK_REST_OVER, LINK_WOKEN, link_carried, link_due, link_group, link_group_add,
    link_group_enter, link_group_free, link_group_has_threads, link_group_init, link_group_missing,
    link_group_remove, link_group_reset, link_group_take, link_inbound, link_load, link_queue,
    link_queue_join_group, link_queue_leave_group, link_queue_rest, link_reader_turn_take,
    link_rest, link_waiter, link_wakeup_free, link_wakeup_sleep,
)
from jetsync._core.mailbox cimport Mailbox
from jetsync._core.message cimport Msg


cdef extern from "pythread.h" nogil:
    unsigned long PyThread_get_thread_ident()


# Messages of one mailbox that a thread gives to the callback before it turns to the next mailbox.
cdef enum:
    TURN = 64


cdef class Task:
    """Handles the messages of one mailbox, on one thread at a time.

    Each goes to `callback`, whose exceptions of any kind go to `report`, with the message. With a `step` in place of
    a callback that is called instead, without waiting for messages: it returns the mailbox whose
    next message is waited for, or None at the end. `ended(error)` is called once, at the end of the
    mailbox or when the step failed with an error (else None).
    """

    def __init__(self, Mailbox mailbox not None, callback, report, ended, step=None):
        self.mailbox = mailbox
        self.callback = callback
        self.report = report
        self.ended = ended
        self.step = step

    @property
    def on_this_thread(self):
        """Whether the caller is the callback, or was called by it."""
        return self.thread == PyThread_get_thread_ident()

    cdef bint run(self, link_carried *carried, int *left) except -1:
        """Handle some of the messages, first the one that came with the queue, and count them off
        `left`; returns whether the task has ended. Without a step its mailbox tells that."""
        cdef Mailbox box = self.mailbox
        cdef Msg msg
        if self.step is not None:
            left[0] = 0
            mailbox = self.step()
            if mailbox is None:
                return True
            if mailbox is not self.mailbox:
                self.move(mailbox)
            return False
        while left[0]:
            left[0] -= 1
            if carried.is_there:
                carried.is_there = False
                msg = box.factory.make(&carried.record)
                msg.since = carried.since
            else:
                msg = box.take(0)
                if msg is None:
                    break
            try:
                self.callback(msg)
            except BaseException as error:  # user code may raise anything
                self.report(error, msg)
            if not link_load(&box.queue.ready_messages):
                break  # giving the queue back finds what came meanwhile
        return False

    cdef int move(self, Mailbox mailbox) except -1:
        """Another mailbox from now on. By the thread that has the task."""
        cdef link_group *group = self.mailbox.queue.group
        with nogil:
            link_queue_leave_group(&self.mailbox.queue)
        self.mailbox = mailbox
        with nogil:
            link_queue_join_group(&mailbox.queue, group, <void *>self, True, False)
        return 0


cdef class Group:
    """The tasks of one connection and the threads that run them. Thread-safe.

    At most `most` threads, and never more than there are tasks. A mailbox that has something goes to
    the first free thread, which has it alone for up to 64 messages; then other mailboxes that wait
    have their turn. So a callback that blocks occupies one thread, and delays others only while all
    threads are occupied.
    """

    def __cinit__(self, Inbound inbound not None, size_t most):
        link_group_init(&self.group, most)
        self.inbound = inbound
        self.tasks = set()

    def __dealloc__(self):
        link_group_free(&self.group)

    def add(self, Task task not None):
        """Take a task in; returns whether the caller has to start a thread that runs `work`."""
        cdef bint more
        self.tasks.add(task)
        with nogil:
            more = link_group_add(&self.group)
        return more

    @property
    def has_threads(self):
        """Whether some thread runs `work`."""
        cdef bint some
        with nogil:
            some = link_group_has_threads(&self.group)
        return some

    def begin(self, Task task not None):
        """Run the task whenever something is in its mailbox."""
        cdef link_queue *queue = &task.mailbox.queue
        cdef bint calls = task.step is None
        task.has_begun = True
        queue.near[0] = <void *>task.callback
        queue.near[1] = <void *>task.mailbox.factory
        with nogil:
            link_queue_join_group(queue, &self.group, <void *>task, False, calls)

    def remove(self, Task task not None):
        """Forget a task that has not begun; one that has is forgotten when its mailbox ends."""
        if not task.has_begun:
            self.forget(task)

    cdef int forget(self, Task task) except -1:
        if task in self.tasks:
            self.tasks.discard(task)
            with nogil:
                link_group_remove(&self.group)
        return 0

    def work(self):
        """Run tasks until there are more threads than tasks. Blocks. A thread that is not needed
        returns at once."""
        cdef link_waiter waiter
        cdef link_queue *queue
        cdef link_carried carried
        cdef link_due due
        cdef bint needed, comes = True
        with nogil:
            needed = link_group_enter(&self.group)
        if not needed:
            return
        while True:
            due = self._take(&waiter, comes, False, &queue, &carried)
            comes = False
            if due == LINK_DUE_NONE:
                self._follow()
                due = self._take(&waiter, False, True, &queue, &carried)
            if due == LINK_DUE_SLEEP:
                with nogil:
                    while link_wakeup_sleep(&waiter.wakeup, -1) != LINK_WOKEN:
                        pass
                    link_wakeup_free(&waiter.wakeup)
            elif due == LINK_DUE_END:
                return
            else:
                self._run(<Task>queue.owner, &carried)
                comes = True

    cdef link_due _take(self, link_waiter *waiter, bint comes, bint sleeps,
                        link_queue **queue, link_carried *carried) noexcept:
        cdef link_due due
        due = link_group_take(&self.group, waiter, comes, sleeps, queue, carried, False)
        if due == LINK_DUE_BUSY:
            with nogil:
                due = link_group_take(&self.group, waiter, comes, sleeps, queue, carried, True)
        return due

    cdef int _follow(self) except -1:
        """Read the link in this thread, if no other thread does; not for long."""
        cdef link_inbound *reader = &self.inbound.link_
        if link_reader_turn_take(&reader.turn, False):
            follow(reader, link_group_missing, &self.group, -1, False)
        return 0

    cdef int _run(self, Task task, link_carried *carried) except -1:
        """Give a task its turn, which goes on while there are messages."""
        cdef int left = TURN
        cdef bint over
        cdef link_rest rest = LINK_REST_MORE
        problem = None
        while rest == LINK_REST_MORE:
            over = True
            task.thread = PyThread_get_thread_ident()
            try:
                over = task.run(carried, &left)
            except BaseException as error:
                problem = error
            task.thread = 0
            rest = LINK_REST_OVER if over else self._rest(task, left > 0)
        if rest == LINK_REST_OVER:
            with nogil:
                link_queue_leave_group(&task.mailbox.queue)
            self.forget(task)
            task.ended(problem)
        return 0

    cdef link_rest _rest(self, Task task, bint goes_on) noexcept:
        """Give the queue of a task back, unless it goes on or has ended."""
        cdef link_queue *queue = &task.mailbox.queue
        cdef bint ends = task.step is None
        cdef link_rest rest = link_queue_rest(queue, goes_on, ends, False)
        if rest == LINK_REST_BUSY:
            with nogil:
                rest = link_queue_rest(queue, goes_on, ends, True)
        return rest

    def abandon(self):
        """End it in a forked child: its threads do not exist there, and no old lock is taken."""
        link_group_reset(&self.group)
