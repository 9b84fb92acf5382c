cpdef object received(bytes raw)
