#include "jet_tally.h"

#include <stdlib.h>
#include <string.h>

void jet_tally_init(jet_tally *t, size_t limit) {
    memset(t, 0, sizeof *t);
    t->limit = limit;
}

void jet_tally_free(jet_tally *t) {
    free(t->entry);
    jet_tally_init(t, t->limit);
}

void jet_tally_clear(jet_tally *t) {
    if (t->entry) memset(t->entry, 0, t->cap * sizeof *t->entry);
    t->used = 0;
}

/* The entry of a key, or the free one where it belongs. */
static jet_tally_entry *find(jet_tally_entry *entry, size_t cap, const uint8_t *key) {
    uint64_t at;
    memcpy(&at, key, sizeof at);
    for (;; at++) {
        jet_tally_entry *e = &entry[at & (cap - 1)];
        if (e->count == 0 || memcmp(e->key, key, JET_TALLY_KEY) == 0) return e;
    }
}

static jet_status grow(jet_tally *t) {
    size_t cap = t->cap ? t->cap * 2 : 1024;
    jet_tally_entry *grown = calloc(cap, sizeof *grown);
    if (grown == NULL) return JET_ERR_MEMORY;
    for (size_t i = 0; i < t->cap; i++)
        if (t->entry[i].count) *find(grown, cap, t->entry[i].key) = t->entry[i];
    free(t->entry);
    t->entry = grown;
    t->cap = cap;
    return JET_OK;
}

jet_status jet_tally_add(jet_tally *t, const uint8_t key[JET_TALLY_KEY], uint32_t *before) {
    if (t->used >= t->cap / 4 * 3 && grow(t) != JET_OK) return JET_ERR_MEMORY;
    jet_tally_entry *e = find(t->entry, t->cap, key);
    if (e->count == 0) {
        if (t->used >= t->limit) return JET_ERR_SIZE;
        memcpy(e->key, key, JET_TALLY_KEY);
        t->used++;
    }
    if (e->count == UINT32_MAX) return JET_ERR_SIZE;
    *before = e->count++;
    return JET_OK;
}
