"""The steps of an observed call: its beginning and its end, or no more than a note of it."""

cimport cython

from cpython.object cimport PyObject_Call

from jetsync._core.sync cimport monotonic

MOST_NOTED = 64  # reading many together costs a part of reading each
cdef Py_ssize_t most = MOST_NOTED
cdef dict NO_OPTIONS = {}


def guarded(watch, method, *arguments):
    """Call this method of `watch.hooks` and return what it returns. One that raises is dropped by
    `watch.drop(method)`: then None."""
    try:
        return getattr(watch.hooks, method)(*arguments)
    except Exception:
        watch.drop(method)


@cython.final
@cython.freelist(16)
cdef class Running:
    """An operation from its beginning to its end: the block of this context manager, or from
    `begin` to `end`. The hooks of `watch` are told of both."""
    cdef object watch
    cdef readonly object op
    cdef double began

    def __cinit__(self, watch, op):
        self.watch = watch
        self.op = op

    def __enter__(self):
        return self.begin()

    def __exit__(self, kind, error, trace):
        self.end(error)

    cpdef begin(self):
        """Tell of the beginning. Returns the operation."""
        guarded(self.watch, "begin", self.op)
        self.began = monotonic()
        return self.op

    cpdef end(self, error):
        """Tell of the end, with this error or with None."""
        self.op.duration = monotonic() - self.began
        self.op.error = error
        guarded(self.watch, "end", self.op)


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
        if self.notes is not None:
            leave(self.watch, self.notes, self.about, error, self.count, self.began)


cdef int leave(watch, notes, about, error, count, double began) except -1:
    """Leave the note of a call that is over."""
    raised = None if error is None else type(error).__name__
    notes.append((about, raised, count, monotonic() - began))
    if len(notes) >= most:
        watch.noted()
    return 0


def call_noted(watch, notes not None, about, count, function, tuple arguments not None,
               dict options not None=NO_OPTIONS):
    """Call a function and return what it returns, and leave a note of the call as `Noted` does.

    `count` None: as many messages as what it returns is long.
    """
    cdef double began = monotonic()
    try:
        found = PyObject_Call(function, arguments, options)
    except BaseException as error:
        leave(watch, notes, about, error, count, began)
        raise
    leave(watch, notes, about, None, len(found) if count is None else count, began)
    return found


def take_notes(notes not None) -> list:
    """Take the notes that wait. Other threads may add more at any time, and take them."""
    cdef list taken = list(notes)
    notes.clear()  # in C no other thread comes between these two steps
    return taken


cdef bint is_same(tuple one, tuple other) except -1:
    """Whether two natures are equal: of most notes in a row they are made of the same objects."""
    cdef Py_ssize_t i
    if len(one) != len(other):
        return False
    for i in range(len(one)):
        if one[i] is not other[i] and one[i] != other[i]:
            return False
    return True


cdef int add(dict sums, about, error, Py_ssize_t messages) except -1:
    key = about, error
    sums[key] = sums.get(key, 0) + messages
    return 0


def sum_notes(list notes not None) -> dict:
    """Return how many messages calls had, by what they were about and what they raised."""
    cdef dict sums = {}
    cdef tuple note, about = None  # and the error: of the notes before, which most notes are like
    cdef object error = None
    cdef Py_ssize_t messages = 0
    for note in notes:
        if about is None or not (is_same(note[0], about) and (note[1] is error or note[1] == error)):
            if about is not None:
                add(sums, about, error, messages)
            about, error, messages = note[0], note[1], 0
        if note[2] is not None:
            messages += note[2]
    if about is not None:
        add(sums, about, error, messages)
    return sums
