"""Reply: a subject for the answers to one question, and the mailbox of what comes there."""

cimport cython
from libc.stdint cimport uint64_t

from jetsync._core.inbound cimport Inbound
from jetsync._core.index cimport Index
from jetsync._core.link cimport link_outbound_link_to_leave_on
from jetsync._core.mailbox cimport Mailbox
from jetsync._core.outbound cimport Outbound


@cython.final
@cython.no_gc_clear  # closing it when it is dropped needs what it refers to
cdef class Reply:
    """A reply subject that no other request ever had, and the mailbox of what comes there.

    It belongs to the link at the time when it is made, or without one to the next link, and ends
    with it. `asked` (an `Index`) has its mailbox under `question`, the subject that is asked, as
    long as it is open. `prefix` begins the subject.

    It is made and closed in C, where no signal handler can come between two steps, and it is closed
    when it is dropped: an interrupt leaves nothing behind.
    """
    cdef Inbound inbound
    cdef Outbound outbound
    cdef Index asked
    cdef object question          # None: the caller watches what it asks
    cdef uint64_t token           # 0: it is closed
    cdef readonly Mailbox mailbox
    cdef readonly str subject

    def __cinit__(self, Inbound inbound not None, Outbound outbound not None, Index asked not None,
                  str prefix not None, question, owner):
        self.inbound = inbound
        self.outbound = outbound
        self.asked = asked
        self.mailbox = Mailbox(owner=owner)
        self.mailbox.link = link_outbound_link_to_leave_on(&outbound.link)
        self.token = inbound.add_reply(self.mailbox)
        if question is not None:
            asked.add(question, self.mailbox)
            self.question = question
        self.subject = prefix + inbound.reply_token(self.token)

    def __dealloc__(self):
        self.end()

    cdef int end(self) except -1:
        if self.token:
            self.inbound.remove_reply(self.token)
            if self.question is not None:
                self.asked.discard(self.question, self.mailbox)
            self.token = 0
        return 0

    @property
    def link(self):
        """The number of its link."""
        return self.mailbox.link

    @property
    def is_over(self):
        """Whether a question that is asked now would get no answer."""
        return (self.mailbox.finished
                or link_outbound_link_to_leave_on(&self.outbound.link) != self.mailbox.link)

    def close(self):
        """Expect nothing more; what still comes is dropped and counted. Safe to repeat."""
        self.end()

    def __enter__(self):
        return self

    def __exit__(self, kind=None, value=None, tb=None):
        self.end()
