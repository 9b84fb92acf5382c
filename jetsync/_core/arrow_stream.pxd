cdef object stream_of(object schema_capsule, object array_capsule)
