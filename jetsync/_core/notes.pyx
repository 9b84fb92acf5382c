"""Notes: what a call leaves behind that observers leave out, and nothing else of it is told."""

cimport cython

from jetsync._core.sync cimport monotonic

MOST_NOTED = 64  # reading many together costs a part of reading each
cdef Py_ssize_t most = MOST_NOTED


@cython.final
@cython.freelist(16)
cdef class Noted:
    """A call that observers leave out, which begins now. Its note is made at the end of the block
    of this context manager, or by `end`.

    `notes` gets it (None: there is no note), and `watch.noted()` is called when MOST_NOTED wait.
    `about` is the nature of the call, `count` the number of its messages, to be set by its end.
    """
    cdef object watch
    cdef object notes
    cdef object about
    cdef public object count
    cdef double began

    def __cinit__(self, watch, notes, about, count=None):
        self.watch = watch
        self.notes = notes
        self.about = about
        self.count = count
        self.began = monotonic()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.end(error)

    cpdef end(self, error):
        """The call ended, with this error or with None."""
        notes = self.notes
        if notes is None:
            return
        raised = None if error is None else type(error).__name__
        notes.append((self.about, raised, self.count, monotonic() - self.began))
        if len(notes) >= most:
            self.watch.noted()


cdef int add(dict sums, about, error, Py_ssize_t messages) except -1:
    key = about, error
    sums[key] = sums.get(key, 0) + messages
    return 0


def sum_notes(list notes not None) -> dict:
    """Return how many messages calls had, by what they were about and what they raised."""
    cdef dict sums = {}
    cdef tuple note
    cdef object about = None, error = None  # of the notes before, which most notes are like
    cdef Py_ssize_t messages = 0
    for note in notes:
        if about is None or note[1] != error or note[0] != about:
            if about is not None:
                add(sums, about, error, messages)
            about, error, messages = note[0], note[1], 0
        if note[2] is not None:
            messages += note[2]
    if about is not None:
        add(sums, about, error, messages)
    return sums
