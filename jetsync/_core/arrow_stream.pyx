"""One Arrow array as a stream of one batch (Arrow C stream interface)."""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.errno cimport ENOMEM
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from jetsync._core.arrow cimport ArrowArray, ArrowSchema, release_schema


# The Arrow C stream interface (arrow.apache.org/docs/format/CStreamInterface.html).
cdef struct ArrowArrayStream:
    int (*get_schema)(ArrowArrayStream *, ArrowSchema *out) noexcept nogil
    int (*get_next)(ArrowArrayStream *, ArrowArray *out) noexcept nogil
    const char *(*get_last_error)(ArrowArrayStream *) noexcept nogil
    void (*release)(ArrowArrayStream *) noexcept nogil
    void *private_data

# The state of a stream: the schema, which each call copies, and the array until it is handed out.
cdef struct Content:
    ArrowSchema schema
    ArrowArray array


cdef bint copy_schema(const ArrowSchema *source, ArrowSchema *out) noexcept nogil:
    """Copy a schema whose texts are constants. False without memory: nothing is left then."""
    cdef int64_t i
    out[0] = source[0]
    out.children = NULL
    out.n_children = 0
    out.release = release_schema
    if source.n_children == 0:
        return True
    out.children = <ArrowSchema **>calloc(source.n_children, sizeof(void *))
    if out.children == NULL:
        out.release = NULL
        return False
    for i in range(source.n_children):
        out.children[i] = <ArrowSchema *>calloc(1, sizeof(ArrowSchema))
        if out.children[i] == NULL:
            break
        out.n_children += 1
        if not copy_schema(source.children[i], out.children[i]):
            break
    if out.n_children == source.n_children and out.children[out.n_children - 1].release != NULL:
        return True
    release_schema(out)
    return False


cdef int get_schema(ArrowArrayStream *stream, ArrowSchema *out) noexcept nogil:
    return 0 if copy_schema(&(<Content *>stream.private_data).schema, out) else ENOMEM


cdef int get_next(ArrowArrayStream *stream, ArrowArray *out) noexcept nogil:
    """Give the array out, and nothing after it."""
    cdef Content *content = <Content *>stream.private_data
    out[0] = content.array
    memset(&content.array, 0, sizeof(ArrowArray))
    return 0


cdef const char *get_last_error(ArrowArrayStream *stream) noexcept nogil:
    return NULL


cdef void release_stream(ArrowArrayStream *stream) noexcept nogil:
    cdef Content *content = <Content *>stream.private_data
    if content.schema.release != NULL:
        content.schema.release(&content.schema)
    if content.array.release != NULL:
        content.array.release(&content.array)
    free(content)
    stream.release = NULL


cdef void destroy_stream_capsule(object capsule) noexcept:
    cdef ArrowArrayStream *stream = <ArrowArrayStream *>PyCapsule_GetPointer(
        capsule, "arrow_array_stream")
    if stream.release != NULL:
        stream.release(stream)
    free(stream)


cdef object stream_of(object schema_capsule, object array_capsule):
    """Make a stream capsule of what two capsules hold; it is moved, not copied."""
    cdef ArrowSchema *schema = <ArrowSchema *>PyCapsule_GetPointer(schema_capsule, "arrow_schema")
    cdef ArrowArray *array = <ArrowArray *>PyCapsule_GetPointer(array_capsule, "arrow_array")
    cdef ArrowArrayStream *stream = <ArrowArrayStream *>calloc(1, sizeof(ArrowArrayStream))
    cdef Content *content = <Content *>calloc(1, sizeof(Content))
    if stream == NULL or content == NULL:
        free(stream)
        free(content)
        raise MemoryError("no memory for an Arrow stream")
    stream.get_schema = get_schema
    stream.get_next = get_next
    stream.get_last_error = get_last_error
    stream.release = release_stream
    stream.private_data = content
    try:
        capsule = PyCapsule_New(stream, "arrow_array_stream", destroy_stream_capsule)
    except BaseException:
        free(stream)
        free(content)
        raise
    # The capsules keep structs that are released already, as the interface has it.
    content.schema = schema[0]
    schema.release = NULL
    content.array = array[0]
    array.release = NULL
    return capsule
