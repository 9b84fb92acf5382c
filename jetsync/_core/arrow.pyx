"""Messages as Arrow columns through the Arrow C data interface; pyarrow is not needed."""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from jetsync._core.csrc cimport (
    JET_OK, jet_columns, jet_columns_fill, jet_columns_kind, jet_columns_measure, jet_columns_size,
    jet_status,
)
from jetsync._core.gil cimport is_little

from jetsync.errors import ConfigError, ProtocolError

COLUMNS = ("subject", "data", "headers", "stream_seq", "consumer_seq", "num_delivered",
           "num_pending", "timestamp", "reply")

# Columns that only a consumer's delivery has: null for stored messages.
cdef tuple CONSUMERS = ("consumer_seq", "num_delivered", "reply")

# The others are made of the bytes of the message alone.
cdef frozenset METADATA = frozenset(COLUMNS) - {"subject", "data", "headers", "reply"}

cdef enum:
    NULLABLE = 2


# -- ownership: every struct owns its buffers and its children; all come from malloc ---------------

cdef void release_schema(ArrowSchema *s) noexcept nogil:
    cdef int64_t i
    for i in range(s.n_children):
        if s.children[i].release != NULL:
            s.children[i].release(s.children[i])
        free(s.children[i])
    free(s.children)
    s.release = NULL


cdef void release_array(ArrowArray *a) noexcept nogil:
    cdef int64_t i
    for i in range(a.n_buffers):
        free(<void *>a.buffers[i])
    free(a.buffers)
    for i in range(a.n_children):
        if a.children[i].release != NULL:
            a.children[i].release(a.children[i])
        free(a.children[i])
    free(a.children)
    a.release = NULL


cdef void destroy_schema_capsule(object capsule) noexcept:
    cdef ArrowSchema *s = <ArrowSchema *>PyCapsule_GetPointer(capsule, "arrow_schema")
    if s.release != NULL:
        s.release(s)
    free(s)


cdef void destroy_array_capsule(object capsule) noexcept:
    cdef ArrowArray *a = <ArrowArray *>PyCapsule_GetPointer(capsule, "arrow_array")
    if a.release != NULL:
        a.release(a)
    free(a)


cdef ArrowSchema *new_schema(const char *format, const char *name, int64_t flags,
                             int64_t children) except NULL:
    cdef int64_t i
    cdef ArrowSchema *s = <ArrowSchema *>calloc(1, sizeof(ArrowSchema))
    if s == NULL:
        raise MemoryError("no memory for an Arrow schema")
    s.format = format
    s.name = name
    s.flags = flags
    s.release = release_schema
    if children:
        s.children = <ArrowSchema **>calloc(children, sizeof(void *))
        if s.children == NULL:
            free(s)
            raise MemoryError("no memory for an Arrow schema")
        # Empty children can be released at once if building stops half way.
        for i in range(children):
            s.children[i] = <ArrowSchema *>calloc(1, sizeof(ArrowSchema))
            if s.children[i] == NULL:
                release_schema(s)
                free(s)
                raise MemoryError("no memory for an Arrow schema")
            s.n_children += 1
    return s


cdef ArrowArray *new_array(int64_t length, int64_t buffers, int64_t children) except NULL:
    cdef int64_t i
    cdef ArrowArray *a = <ArrowArray *>calloc(1, sizeof(ArrowArray))
    if a == NULL:
        raise MemoryError("no memory for an Arrow array")
    a.length = length
    a.release = release_array
    a.buffers = <const void **>calloc(max(buffers, 1), sizeof(void *))
    a.children = <ArrowArray **>calloc(max(children, 1), sizeof(void *))
    if a.buffers == NULL or a.children == NULL:
        release_array(a)
        free(a)
        raise MemoryError("no memory for an Arrow array")
    a.n_buffers = buffers
    for i in range(children):
        a.children[i] = <ArrowArray *>calloc(1, sizeof(ArrowArray))
        if a.children[i] == NULL:
            release_array(a)
            free(a)
            raise MemoryError("no memory for an Arrow array")
        a.n_children += 1
    return a


cdef int put_schema(ArrowSchema *parent, int64_t i, ArrowSchema *child) except -1:
    """Move the content of a child struct into its place and free the empty struct."""
    memcpy(parent.children[i], child, sizeof(ArrowSchema))
    free(child)
    return 0


cdef int put_array(ArrowArray *parent, int64_t i, ArrowArray *child) except -1:
    memcpy(parent.children[i], child, sizeof(ArrowArray))
    free(child)
    return 0


cdef void *buffer(ArrowArray *a, int64_t i, size_t n) except NULL:
    """A buffer of at least `n` bytes that the array owns."""
    cdef void *p = malloc(n + 8)
    if p == NULL:
        raise MemoryError("no memory for an Arrow buffer")
    a.buffers[i] = p
    return p


cdef uint8_t *bitmap(ArrowArray *a, size_t rows, size_t valid) except? NULL:
    """A zeroed validity bitmap, always made; `settle` drops it when it is not needed."""
    cdef size_t n = (rows + 7) // 8
    cdef uint8_t *bits = <uint8_t *>buffer(a, 0, n)
    memset(bits, 0, n + 8)
    a.null_count = <int64_t>(rows - valid)
    return bits


cdef int make_null(ArrowArray *a, size_t rows) except -1:
    """All rows are null."""
    free(<void *>a.buffers[0])
    a.buffers[0] = NULL
    bitmap(a, rows, 0)
    return 0


cdef void settle(ArrowArray *a) noexcept:
    """No nulls: no bitmap."""
    if a.null_count == 0:
        free(<void *>a.buffers[0])
        a.buffers[0] = NULL


# -- the columns -----------------------------------------------------------------------------------

cdef ArrowArray *text_array(size_t rows, size_t nbytes, int32_t **offsets,
                            uint8_t **data) except NULL:
    cdef ArrowArray *a = new_array(rows, 3, 0)
    try:
        offsets[0] = <int32_t *>buffer(a, 1, (rows + 1) * sizeof(int32_t))
        data[0] = <uint8_t *>buffer(a, 2, nbytes)
    except BaseException:
        release_array(a)
        free(a)
        raise
    return a


cdef ArrowArray *number_array(size_t rows, void **values) except NULL:
    cdef ArrowArray *a = new_array(rows, 2, 0)
    try:
        bitmap(a, rows, rows)
        values[0] = buffer(a, 1, rows * 8)
    except BaseException:
        release_array(a)
        free(a)
        raise
    return a


cdef ArrowSchema *headers_schema(bint text) except NULL:
    cdef ArrowSchema *s = new_schema("+m", "headers", NULLABLE, 1)
    cdef ArrowSchema *entries
    cdef ArrowSchema *values
    entries = new_schema("+s", "entries", 0, 2)
    put_schema(entries, 0, new_schema("u", "key", 0, 0))
    values = new_schema("+l", "value", NULLABLE, 1)
    put_schema(values, 0, new_schema("u" if text else "z", "item", NULLABLE, 0))
    put_schema(entries, 1, values)
    put_schema(s, 0, entries)
    return s


cdef ArrowArray *headers_array(jet_columns_size *size, jet_columns *c) except NULL:
    """map<key, list<value>>: rows -> entries(key, list) -> items."""
    cdef ArrowArray *a = new_array(size.rows, 2, 1)
    cdef ArrowArray *entries
    cdef ArrowArray *lists
    try:
        c.header_valid = bitmap(a, size.rows, size.header_rows)
        c.header_offsets = <int32_t *>buffer(a, 1, (size.rows + 1) * sizeof(int32_t))
        entries = new_array(size.header_keys, 1, 2)
        put_array(a, 0, entries)
        entries = a.children[0]
        put_array(entries, 0, text_array(size.header_keys, size.key_bytes, &c.key_offsets, &c.key))
        lists = new_array(size.header_keys, 2, 1)
        put_array(entries, 1, lists)
        lists = entries.children[1]
        c.list_offsets = <int32_t *>buffer(lists, 1, (size.header_keys + 1) * sizeof(int32_t))
        put_array(lists, 0, text_array(size.header_values, size.value_bytes, &c.value_offsets,
                                       &c.value))
    except BaseException:
        release_array(a)
        free(a)
        raise
    return a


cdef ArrowSchema *column_schema(str name, jet_columns_kind kind) except NULL:
    if name == "subject":
        return new_schema("u", "subject", NULLABLE, 0)
    if name == "reply":
        return new_schema("u", "reply", NULLABLE, 0)
    if name == "data":
        return new_schema("z", "data", NULLABLE, 0)
    if name == "headers":
        return headers_schema(kind.text)
    if name == "stream_seq":
        return new_schema("L", "stream_seq", NULLABLE, 0)
    if name == "consumer_seq":
        return new_schema("L", "consumer_seq", NULLABLE, 0)
    if name == "num_delivered":
        return new_schema("L", "num_delivered", NULLABLE, 0)
    if name == "num_pending":
        return new_schema("L", "num_pending", NULLABLE, 0)
    return new_schema("tsu:UTC" if kind.micros else "tsn:UTC", "timestamp", NULLABLE, 0)


cdef ArrowArray *column_array(str name, jet_columns_size *size, jet_columns *c) except NULL:
    cdef size_t rows = size.rows
    if name == "subject":
        return text_array(rows, size.subject_bytes, &c.subject_offsets, &c.subject)
    if name == "reply":
        return text_array(rows, size.reply_bytes, &c.reply_offsets, &c.reply)
    if name == "data":
        return text_array(rows, size.data_bytes, &c.data_offsets, &c.data)
    if name == "headers":
        return headers_array(size, c)
    if name == "stream_seq":
        return number_array(rows, <void **>&c.stream_seq)
    if name == "consumer_seq":
        return number_array(rows, <void **>&c.consumer_seq)
    if name == "num_delivered":
        return number_array(rows, <void **>&c.num_delivered)
    if name == "num_pending":
        return number_array(rows, <void **>&c.num_pending)
    return number_array(rows, <void **>&c.timestamp)


cdef int check_size(jet_columns_size *size) except -1:
    """Arrow's 32-bit offsets hold less than 2 GiB per column."""
    for n in (size.rows, size.subject_bytes, size.data_bytes, size.reply_bytes, size.header_values,
              size.key_bytes, size.value_bytes):
        if n > INT32_MAX:
            raise ConfigError("the batch holds 2 GiB or more in one column; fetch smaller batches")
    return 0


cdef int build(jet_chain *chain, list names, jet_columns_kind kind, ArrowSchema *schema,
               ArrowArray *array) except -1:
    """Fill the children of an empty struct schema and array."""
    cdef jet_columns_size size
    cdef jet_columns c
    cdef bint headers = "headers" in names
    cdef size_t bits
    cdef int64_t i
    memset(&size, 0, sizeof(size))
    memset(&c, 0, sizeof(c))
    cdef jet_status status
    if is_little(chain.bytes):
        status = jet_columns_measure(chain, kind, headers, &size)
    else:
        with nogil:
            status = jet_columns_measure(chain, kind, headers, &size)
    if status != JET_OK:
        raise MemoryError("no memory for the header lines of a message")
    check_size(&size)
    array.length = <int64_t>size.rows
    bits = (size.rows + 7) // 8
    # The five numeric columns share one validity; the C code fills it once, here it is copied.
    # It writes all five when it writes any; columns not asked for go to a scratch area.
    cdef uint64_t *scratch = NULL
    try:
        if not METADATA.isdisjoint(names):
            c.metadata_valid = <uint8_t *>calloc(bits + 8, 1)
            scratch = <uint64_t *>malloc(size.rows * 8 + 8)
            if c.metadata_valid == NULL or scratch == NULL:
                raise MemoryError("no memory for Arrow columns")
        c.stream_seq = c.consumer_seq = c.num_delivered = c.num_pending = scratch
        c.timestamp = <int64_t *>scratch
        for i, name in enumerate(names):
            put_schema(schema, i, column_schema(name, kind))
            put_array(array, i, column_array(name, &size, &c))
        if is_little(chain.bytes):
            status = jet_columns_fill(chain, kind, &c)
        else:
            with nogil:
                status = jet_columns_fill(chain, kind, &c)
        if status != JET_OK:
            raise MemoryError("no memory for the header lines of a message")
        if kind.stored and c.metadata_rows != size.rows:
            raise ProtocolError("a direct get was answered without the server's own headers")
        for i, name in enumerate(names):
            if kind.stored and name in CONSUMERS:
                make_null(array.children[i], size.rows)
            elif name in METADATA:
                memcpy(<void *>array.children[i].buffers[0], c.metadata_valid, bits)
                array.children[i].null_count = <int64_t>(size.rows - c.metadata_rows)
                settle(array.children[i])
            elif name == "headers":
                settle(array.children[i])
    finally:
        free(c.metadata_valid)
        free(scratch)
    return 0


cdef tuple export_chain(jet_chain *chain, object columns, bint text_headers, bint microseconds,
                        bint stored):
    """Return (schema capsule, array capsule) of a struct array; both own copies of the data."""
    cdef jet_columns_kind kind
    cdef ArrowSchema *schema
    cdef ArrowArray *array
    cdef list names = list(COLUMNS if columns is None else columns)
    for name in names:
        if name not in COLUMNS:
            raise ConfigError(f"unknown column {name!r}; there are {', '.join(COLUMNS)}")
        if names.count(name) > 1:
            raise ConfigError(f"column {name!r} is asked for twice")
    schema = new_schema("+s", "", 0, len(names))
    schema_capsule = PyCapsule_New(schema, "arrow_schema", destroy_schema_capsule)
    array = new_array(0, 1, len(names))
    array_capsule = PyCapsule_New(array, "arrow_array", destroy_array_capsule)
    kind.text = text_headers
    kind.micros = microseconds
    kind.stored = stored
    build(chain, names, kind, schema, array)
    return schema_capsule, array_capsule
