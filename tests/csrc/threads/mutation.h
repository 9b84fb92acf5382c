/* The locks and atomics of csrc/link with one of them left out: included by link_sync.h when the
 * library is compiled with LINK_MUTATION. Each use is known by its file and line. */
#ifndef MUTATION_H
#define MUTATION_H

/* Whether this use is the one that is left out (`mutant_choose`). */
int mutant_is(const char *file, int line);
/* Leave out the use at "file.c:line" and count how often a thread comes to it; "all" leaves out
 * none and lists every use that a thread comes to. */
void mutant_choose(const char *site);
/* Say on standard error what was counted and listed. */
void mutant_report(void);

void mutant_lock(link_mutex *m, const char *file, int line);
int mutant_try_lock(link_mutex *m, const char *file, int line);
void mutant_unlock(link_mutex *m);

#define link_lock(m) mutant_lock(m, __FILE__, __LINE__)
#define link_try_lock(m) mutant_try_lock(m, __FILE__, __LINE__)
#define link_unlock(m) mutant_unlock(m)

#define link_load(from)                                                                          \
    (mutant_is(__FILE__, __LINE__) ? *(from) : __atomic_load_n(from, __ATOMIC_RELAXED))
#define link_store(to, value)                                                                    \
    do {                                                                                         \
        if (mutant_is(__FILE__, __LINE__))                                                       \
            *(to) = (value);                                                                     \
        else                                                                                     \
            __atomic_store_n(to, value, __ATOMIC_RELAXED);                                       \
    } while (0)
#define link_swap(to, value)                                                                     \
    (mutant_is(__FILE__, __LINE__) ? mutant_swap(to, value)                                      \
                                   : __atomic_exchange_n(to, value, __ATOMIC_ACQ_REL))
#define link_take_if(to, expected, value)                                                        \
    (mutant_is(__FILE__, __LINE__)                                                               \
         ? mutant_take_if(to, expected, value)                                                   \
         : __atomic_compare_exchange_n(to, expected, value, 0, __ATOMIC_ACQ_REL,                 \
                                       __ATOMIC_RELAXED))

static inline int mutant_swap(int *to, int value) {
    int before = *to;
    *to = value;
    return before;
}

static inline int mutant_take_if(int *to, int *expected, int value) {
    int before = *to;
    if (before == *expected) *to = value;
    int taken = before == *expected;
    *expected = before;
    return taken;
}

#endif
