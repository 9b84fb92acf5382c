"""ArrowRows: reading text, binary and header columns of any Arrow record batch, row by row."""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t

from jetsync._core.csrc cimport JET_ERR_MEMORY, JET_OK, jet_header_append, jet_status, span_of

from jetsync.errors import ConfigError


cdef bint is_null(const uint8_t *validity, int64_t at) noexcept nogil:
    return validity != NULL and not (validity[at // 8] >> (at % 8)) & 1


cdef bint column_is_null(Column *c, int64_t row) noexcept nogil:
    return is_null(c.validity, row + c.start)


cdef jet_span column_get(Column *c, int64_t row) noexcept nogil:
    """The bytes of a row, borrowed from the column; empty for null."""
    cdef int64_t at = row + c.start
    cdef int64_t a, b
    if column_is_null(c, row):
        return span_of(NULL, 0)
    if c.wide:
        a = (<const int64_t *>c.offsets)[at]
        b = (<const int64_t *>c.offsets)[at + 1]
    else:
        a = (<const int32_t *>c.offsets)[at]
        b = (<const int32_t *>c.offsets)[at + 1]
    return span_of(c.data + a, <size_t>(b - a))


cdef void header_range(HeaderColumn *c, int64_t row, int64_t *first, int64_t *last) noexcept nogil:
    """The entries of a row; none for null."""
    cdef int64_t at = row + c.start
    if is_null(c.validity, at):
        first[0] = last[0] = 0
        return
    first[0] = c.offsets[at] + c.entries
    last[0] = c.offsets[at + 1] + c.entries


cdef int bind_text(ArrowSchema *s, ArrowArray *a, str what, Column *out) except -1:
    cdef bytes format = s.format
    if format not in (b"u", b"z", b"U", b"Z"):
        raise ConfigError(
            f"{what} must be a string or binary column (Arrow format {format.decode()!r} is not); "
            "cast it first"
        )
    out.validity = <const uint8_t *>a.buffers[0] if a.null_count != 0 else NULL
    out.offsets = a.buffers[1]
    out.data = <const uint8_t *>a.buffers[2]
    out.start = a.offset
    out.wide = format in (b"U", b"Z")
    return 0


cdef class ArrowRows:
    """A borrowed record batch; keeps it alive. Reading only, so it may be shared between threads."""

    def __cinit__(self, batch):
        if not hasattr(batch, "__arrow_c_array__"):
            raise ConfigError(
                f"expected an Arrow record batch (something with __arrow_c_array__), not "
                f"{type(batch).__name__}"
            )
        self.schema_capsule, self.array_capsule = batch.__arrow_c_array__()
        self.schema = <ArrowSchema *>PyCapsule_GetPointer(self.schema_capsule, "arrow_schema")
        self.array = <ArrowArray *>PyCapsule_GetPointer(self.array_capsule, "arrow_array")
        if <bytes>self.schema.format != b"+s":
            raise ConfigError("expected an Arrow record batch, not a single array")
        if self.array.offset != 0:
            raise ConfigError("a record batch whose struct has an offset is not supported; copy it")
        self.length = self.array.length

    @property
    def names(self):
        """The column names in order."""
        cdef int64_t i
        cdef list found = []
        for i in range(self.schema.n_children):
            found.append((<bytes>self.schema.children[i].name).decode())
        return found

    cdef int64_t find(self, str name) except -1:
        cdef list names = self.names
        if name not in names:
            raise ConfigError(f"the batch has no column {name!r}; it has {', '.join(names)}")
        return names.index(name)

    cdef int text_column(self, str name, Column *out) except -1:
        cdef int64_t i = self.find(name)
        return bind_text(self.schema.children[i], self.array.children[i], f"column {name!r}", out)

    def text(self, str name not None, int64_t row):
        """Return what a text column holds in a row; empty for null."""
        cdef Column column
        cdef jet_span found
        if not 0 <= row < self.length:
            raise IndexError(f"there is no row {row} of {self.length}")
        self.text_column(name, &column)
        found = column_get(&column, row)
        return (<const char *>found.ptr)[:found.len].decode("utf-8", "surrogateescape") if found.len else ""

    def check_headers(self, str name not None):
        """Return the position of a header column: map<string, string or binary, or lists of them>."""
        cdef int64_t i = self.find(name)
        cdef ArrowSchema *s = self.schema.children[i]
        cdef bytes value
        if <bytes>s.format == b"+m":
            value = s.children[0].children[1].format
            if value == b"+l":
                value = s.children[0].children[1].children[0].format
            if (value in (b"u", b"z", b"U", b"Z")
                    and <bytes>s.children[0].children[0].format in (b"u", b"z", b"U", b"Z")):
                return i
        raise ConfigError(
            f"header column {name!r} must be map<string, string> or map<string, list<string>> "
            "(or binary instead of string)"
        )

    cdef int header_column(self, int64_t child, HeaderColumn *out) except -1:
        """Bind a column that `check_headers` found."""
        cdef ArrowArray *a = self.array.children[child]
        cdef ArrowSchema *entries_s = self.schema.children[child].children[0]
        cdef ArrowArray *entries = a.children[0]
        cdef ArrowArray *values = entries.children[1]
        cdef ArrowSchema *values_s = entries_s.children[1]
        out.validity = <const uint8_t *>a.buffers[0] if a.null_count != 0 else NULL
        out.offsets = <const int32_t *>a.buffers[1]
        out.start = a.offset
        # Children of a sliced struct are addressed relative to the struct's own offset.
        out.entries = entries.offset
        bind_text(entries_s.children[0], entries.children[0], "a header name", &out.name)
        out.lists = NULL
        if <bytes>values_s.format == b"+l":
            out.lists = <const int32_t *>values.buffers[1]
            # A null list may still span items.
            out.lists_validity = <const uint8_t *>values.buffers[0] if values.null_count != 0 else NULL
            out.lists_start = values.offset
            values, values_s = values.children[0], values_s.children[0]
        return bind_text(values_s, values, "a header value", &out.value)

    cdef int append_headers(self, int64_t child, int64_t row, jet_buf *out) except -1:
        """Append the "name: value" lines of one row; returns how many there are."""
        cdef HeaderColumn c
        cdef int64_t i, j, begin, end, first, last
        cdef int count = 0
        self.header_column(child, &c)
        header_range(&c, row, &begin, &end)
        for i in range(begin, end):
            first, last = i, i + 1
            if c.lists != NULL:
                if is_null(c.lists_validity, i + c.lists_start):
                    continue
                first = c.lists[i + c.lists_start]
                last = c.lists[i + c.lists_start + 1]
            for j in range(first, last):
                if not column_is_null(&c.value, j):
                    self._append(column_get(&c.name, i), column_get(&c.value, j), out)
                    count += 1
        return count

    cdef int _append(self, jet_span name, jet_span value, jet_buf *out) except -1:
        cdef jet_status status = jet_header_append(out, name, value)
        if status == JET_OK:
            return 0
        if status == JET_ERR_MEMORY:
            raise MemoryError("no memory for headers")
        shown = (<const char *>name.ptr)[:name.len].decode("utf-8", "replace")
        raise ConfigError(
            f"header {shown!r} is not valid: a name has visible ASCII without colon, a value no CR, "
            "LF or NUL"
        )
