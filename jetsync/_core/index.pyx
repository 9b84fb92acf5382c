"""Index: several values under one key."""

cimport cython


@cython.final
cdef class Index:
    """Several values under one key. Thread-safe without a lock: nothing else runs in the middle of
    a step, as long as hashing and comparing keys and values needs no Python code.

    One value stands under its key by itself, which is nearly always so; several do in a dict.
    """

    def __cinit__(self):
        self.groups = {}

    cpdef add(self, key, value):
        """Add a value, which is no dict; an equal one counts once."""
        cdef dict group
        while True:
            found = self.groups.setdefault(key, value)
            if type(found) is dict:
                (<dict>found)[value] = None
                return
            if found is value:
                return
            # The collector may run finalizers while a dict is made, and they change this.
            group = {found: None, value: None}
            if self.groups.get(key) is found:
                self.groups[key] = group
                return

    cpdef discard(self, key, value):
        """Remove a value, if it is there."""
        if self.groups is None:
            return  # the collector has emptied this
        found = self.groups.get(key)
        if type(found) is dict:
            (<dict>found).pop(value, None)
            if found:
                return
        elif found is None or found != value:
            return
        del self.groups[key]

    def get(self, key):
        """Return the values under a key in a new list."""
        found = self.groups.get(key)
        if type(found) is dict:
            return list(<dict>found)
        return [] if found is None else [found]
