/* See mutation.h. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link_sync.h"

static char chosen_file[64];
static int chosen_line;
static size_t uses; /* atomic */
static _Thread_local link_mutex *left_out[4]; /* not taken: not to be given back either */

/* Every use that a thread has come to, by the address of its file's name and its line. */
enum { SLOTS = 4096 };
static struct {
    const char *file; /* atomic; written last */
    int line;
} reached[SLOTS];
static int listing;
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

static const char *last_part(const char *file) {
    const char *slash = strrchr(file, '/');
    return slash ? slash + 1 : file;
}

/* Where this use stands in `reached`, or the free slot for it. */
static size_t slot_of(const char *file, int line) {
    size_t at = ((uintptr_t)file / 8 + (size_t)line) % SLOTS;
    for (;; at = (at + 1) % SLOTS) {
        const char *found = __atomic_load_n(&reached[at].file, __ATOMIC_ACQUIRE);
        if (!found || (found == file && reached[at].line == line)) return at;
    }
}

static void note(const char *file, int line) {
    if (__atomic_load_n(&reached[slot_of(file, line)].file, __ATOMIC_ACQUIRE)) return;
    pthread_mutex_lock(&adding);
    size_t at = slot_of(file, line);
    if (!reached[at].file) { /* else another thread was here first, and others read it */
        reached[at].line = line;
        __atomic_store_n(&reached[at].file, file, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&adding);
}

int mutant_is(const char *file, int line) {
    if (listing) note(file, line);
    if (line != chosen_line) return 0;
    if (strcmp(last_part(file), chosen_file)) return 0;
    __atomic_fetch_add(&uses, 1, __ATOMIC_RELAXED);
    return 1;
}

void mutant_choose(const char *site) {
    const char *colon = strchr(site, ':');
    if (!colon) {
        listing = 1;
        return;
    }
    memcpy(chosen_file, site, (size_t)(colon - site));
    chosen_line = atoi(colon + 1);
}

void mutant_report(void) {
    fprintf(stderr, "left out %zu times\n", __atomic_load_n(&uses, __ATOMIC_RELAXED));
    for (size_t i = 0; i < SLOTS; i++)
        if (reached[i].file) fprintf(stderr, "%s:%d\n", last_part(reached[i].file), reached[i].line);
}

static int leave_out(link_mutex *m, const char *file, int line) {
    if (!mutant_is(file, line)) return 0;
    for (int i = 0; i < 4; i++) {
        if (left_out[i]) continue;
        left_out[i] = m;
        return 1;
    }
    abort();
}

void mutant_lock(link_mutex *m, const char *file, int line) {
    if (!leave_out(m, file, line)) link_lock_real(m);
}

int mutant_try_lock(link_mutex *m, const char *file, int line) {
    return leave_out(m, file, line) || link_try_lock_real(m);
}

void mutant_unlock(link_mutex *m) {
    for (int i = 0; i < 4; i++) {
        if (left_out[i] != m) continue;
        left_out[i] = NULL;
        return;
    }
    link_unlock_real(m);
}
