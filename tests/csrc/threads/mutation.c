/* See mutation.h. */
#include <stdlib.h>
#include <string.h>

#include "link_sync.h"

static char chosen_file[64];
static int chosen_line;
static size_t uses; /* atomic */
static _Thread_local link_mutex *left_out[4]; /* not taken: not to be given back either */

int mutant_is(const char *file, int line) {
    const char *slash;
    if (line != chosen_line) return 0;
    slash = strrchr(file, '/');
    if (strcmp(slash ? slash + 1 : file, chosen_file)) return 0;
    __atomic_fetch_add(&uses, 1, __ATOMIC_RELAXED);
    return 1;
}

void mutant_choose(const char *site) {
    const char *colon = strchr(site, ':');
    memcpy(chosen_file, site, (size_t)(colon - site));
    chosen_line = atoi(colon + 1);
}

size_t mutant_uses(void) { return __atomic_load_n(&uses, __ATOMIC_RELAXED); }

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
