#include "jet_slots.h"

#include <stdlib.h>
#include <string.h>

void jet_slots_init(jet_slots *t) { memset(t, 0, sizeof *t); }

void jet_slots_free(jet_slots *t) {
    free(t->slot);
    jet_slots_init(t);
}

static uint64_t key_of(uint32_t generation, uint32_t index) {
    return ((uint64_t)generation << JET_SLOT_BITS) | (index + 1);
}

uint64_t jet_slots_add(jet_slots *t, void *value) {
    uint32_t index;
    if (t->first_free) {
        index = t->first_free - 1;
        t->first_free = t->slot[index].next_free;
    } else {
        if (t->used >= JET_SLOTS_MAX) return 0;
        if (t->used == t->cap) {
            uint32_t cap = t->cap ? t->cap * 2 : 16;
            jet_slot *grown = realloc(t->slot, cap * sizeof *grown);
            if (grown == NULL) return 0;
            t->slot = grown;
            t->cap = cap;
        }
        index = t->used++;
        t->slot[index].generation = 0;
    }
    t->slot[index].value = value;
    t->slot[index].next_free = 0;
    t->count++;
    return key_of(t->slot[index].generation, index);
}

static jet_slot *find(const jet_slots *t, uint64_t key) {
    uint64_t low = key & ((1u << JET_SLOT_BITS) - 1);
    if (low == 0 || low > t->used) return NULL;
    jet_slot *s = &t->slot[low - 1];
    return s->value && s->generation == key >> JET_SLOT_BITS ? s : NULL;
}

void *jet_slots_get(const jet_slots *t, uint64_t key) {
    jet_slot *s = find(t, key);
    return s ? s->value : NULL;
}

void *jet_slots_remove(jet_slots *t, uint64_t key) {
    jet_slot *s = find(t, key);
    if (s == NULL) return NULL;
    void *value = s->value;
    s->value = NULL;
    s->generation++;
    s->next_free = t->first_free;
    t->first_free = (uint32_t)(s - t->slot) + 1;
    t->count--;
    return value;
}
