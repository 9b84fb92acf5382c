"""Notes: what a call leaves behind that observers leave out, and nothing else of it is told."""

cimport cython

from jetsync._core.sync cimport monotonic

MOST_NOTED = 64
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
