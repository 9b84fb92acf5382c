/* Counts what a process copies by memcpy and memmove, in pieces of some size: preloaded, and at
 * the same time an extension module by which the process asks. Copies between user and kernel are
 * not among them. */
#include <Python.h>
#include <stddef.h>
#include <stdint.h>

enum { PIECE = 256 }; /* subjects and lines are shorter */

static size_t copied; /* atomic */

static void note(size_t n) {
    if (n >= PIECE) __atomic_add_fetch(&copied, n, __ATOMIC_RELAXED);
}

/* Word by word, through volatile pointers: the compiler must not make a memcpy of it again. */
static void *forward(void *to, const void *from, size_t n) {
    volatile unsigned char *d = to;
    const volatile unsigned char *s = from;
    for (; n && ((uintptr_t)d | (uintptr_t)s) % 8; n--) *d++ = *s++;
    for (; n >= 8; n -= 8, d += 8, s += 8)
        *(volatile uint64_t *)(volatile void *)d = *(const volatile uint64_t *)(const volatile void *)s;
    while (n--) *d++ = *s++;
    return to;
}

static void *backward(void *to, const void *from, size_t n) {
    volatile unsigned char *d = to;
    const volatile unsigned char *s = from;
    while (n--) d[n] = s[n];
    return to;
}

void *memcpy(void *to, const void *from, size_t n) {
    note(n);
    return forward(to, from, n);
}

void *memmove(void *to, const void *from, size_t n) {
    note(n);
    int clear = (uintptr_t)to <= (uintptr_t)from || (uintptr_t)to >= (uintptr_t)from + n;
    return clear ? forward(to, from, n) : backward(to, from, n);
}

void *__memcpy_chk(void *to, const void *from, size_t n, size_t room) {
    if (n > room) abort();
    return memcpy(to, from, n);
}

void *__memmove_chk(void *to, const void *from, size_t n, size_t room) {
    if (n > room) abort();
    return memmove(to, from, n);
}

static PyObject *bytes_copied(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    return PyLong_FromSize_t(__atomic_load_n(&copied, __ATOMIC_RELAXED));
}

static PyMethodDef methods[] = {
    {"bytes_copied", bytes_copied, METH_NOARGS, "Bytes that were copied so far, in large pieces."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "copies", NULL, -1, methods,
                                    NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_copies(void) { return PyModule_Create(&module); }
