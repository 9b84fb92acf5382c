/* malloc and friends that fail on demand. The library is compiled against these names. */
#include <stddef.h>
#include <stdlib.h>

void fail_allocation(int nth);
void *test_malloc(size_t n);
void *test_calloc(size_t n, size_t size);
void *test_realloc(void *p, size_t n);

static int countdown;

void fail_allocation(int nth) { countdown = nth; }

static int refused(void) { return countdown > 0 && --countdown == 0; }

void *test_malloc(size_t n) { return refused() ? NULL : malloc(n); }

void *test_calloc(size_t n, size_t size) { return refused() ? NULL : calloc(n, size); }

void *test_realloc(void *p, size_t n) { return refused() ? NULL : realloc(p, n); }
