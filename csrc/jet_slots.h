/* jet_slots - small numbers that name pointers and never name the wrong one.
 *
 * A key is (generation << 24 | index + 1): the first keys are 1, 2, 3 ... A freed index comes back
 * with a new generation, so a late answer for an old key finds nothing. Used for subscription ids
 * and for reply tokens. The table owns its array, not the pointers in it. */
#ifndef JET_SLOTS_H
#define JET_SLOTS_H

#include "jet_types.h"

#define JET_SLOT_BITS 24
#define JET_SLOTS_MAX ((1u << JET_SLOT_BITS) - 2)

typedef struct jet_slot {
    void *value; /* NULL: free */
    uint32_t generation;
    uint32_t next_free; /* index + 1 of the next free slot, 0: none */
} jet_slot;

typedef struct jet_slots {
    jet_slot *slot; /* owned */
    uint32_t used;  /* slots ever handed out */
    uint32_t cap;
    uint32_t first_free; /* index + 1, 0: none */
    uint32_t count;      /* live values */
} jet_slots;

void jet_slots_init(jet_slots *t);
void jet_slots_free(jet_slots *t);
/* Name a pointer (not NULL). Returns its key, or 0 when memory or keys are used up. */
uint64_t jet_slots_add(jet_slots *t, void *value);
/* The pointer of a key, or NULL when the key is unknown or no longer valid. */
void *jet_slots_get(const jet_slots *t, uint64_t key);
/* Forget a key; returns what it named, or NULL. */
void *jet_slots_remove(jet_slots *t, uint64_t key);

#endif
