/* Memory that fails on demand, for every user of malloc in a process: preloaded, and at the same time
 * an extension module by which the process says when. With PYTHONMALLOC=malloc each allocation of the
 * interpreter is one of these too. Only the thread that asked for it is refused anything, but for what
 * the C code of the library asks for itself: that can be refused in every thread. */
#define _GNU_SOURCE 1
#include <Python.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

static __thread long countdown __attribute__((tls_model("initial-exec")));
static __thread long lasting __attribute__((tls_model("initial-exec")));
static __thread long refused __attribute__((tls_model("initial-exec")));

static atomic_long every; /* of the library's own allocations each such one is refused; 0: none */
static atomic_long asked, refused_core;

/* Whether the library's C code calls, and not the interpreter for it. */
static int is_core(const void *caller) {
    Dl_info info;
    return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "/jetsync/_core/");
}

static int is_refused(const void *caller) {
    long one_in = atomic_load(&every);
    if (one_in && is_core(caller) && atomic_fetch_add(&asked, 1) % one_in == one_in - 1) {
        atomic_fetch_add(&refused_core, 1);
        return 1;
    }
    if (countdown == 0 || --countdown) return 0;
    countdown = lasting;
    refused++;
    return 1;
}

void *malloc(size_t n) { return is_refused(__builtin_return_address(0)) ? NULL : __libc_malloc(n); }

void *calloc(size_t n, size_t size) {
    return is_refused(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n) {
    return is_refused(__builtin_return_address(0)) ? NULL : __libc_realloc(p, n);
}

/* Neither of these two allocates: small numbers exist already. */
static PyObject *begin(PyObject *self, PyObject *nth, long after) {
    long n = PyLong_AsLong(nth);
    (void)self;
    refused = 0;
    lasting = after;
    countdown = n;
    return PyLong_FromLong(0);
}

static PyObject *refuse_one(PyObject *self, PyObject *nth) { return begin(self, nth, 0); }

static PyObject *refuse_from(PyObject *self, PyObject *nth) { return begin(self, nth, 1); }

static PyObject *end(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    countdown = lasting = 0;
    return PyLong_FromLong(refused > 200 ? 200 : refused);
}

static PyObject *refuse_core(PyObject *self, PyObject *one_in) {
    (void)self;
    atomic_store(&every, PyLong_AsLong(one_in));
    return PyLong_FromLong(atomic_exchange(&refused_core, 0));
}

static PyMethodDef methods[] = {
    {"refuse_one", refuse_one, METH_O, "Refuse allocation number n from now on, and no other."},
    {"refuse_from", refuse_from, METH_O, "Refuse allocation number n from now on, and all after."},
    {"end", end, METH_NOARGS, "Refuse nothing more; returns how many were refused."},
    {"refuse_core", refuse_core, METH_O,
     "Refuse one in n of the allocations of the library's C code, in every thread; 0: none. Returns how "
     "many were refused so since the last call."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "starve", NULL, -1, methods,
                                    NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_starve(void) { return PyModule_Create(&module); }
