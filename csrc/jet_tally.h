/* jet_tally - how often each digest was met, for up to so many different ones.
 *
 * An open table of 16 bytes an entry, at most three quarters full. Keys must be digests: their
 * first bytes are taken as evenly spread. The tally owns its table. */
#ifndef JET_TALLY_H
#define JET_TALLY_H

#include "jet_types.h"

#define JET_TALLY_KEY 12

typedef struct jet_tally_entry {
    uint8_t key[JET_TALLY_KEY];
    uint32_t count; /* 0: free */
} jet_tally_entry;

typedef struct jet_tally {
    jet_tally_entry *entry; /* owned; NULL until first used */
    size_t cap;             /* a power of two, or 0 */
    size_t used;
    size_t limit; /* different keys at most */
} jet_tally;

void jet_tally_init(jet_tally *t, size_t limit);
/* Free the memory; the tally is empty and usable afterwards. Safe to repeat. */
void jet_tally_free(jet_tally *t);
/* Count a key once more; `before` becomes how often it was counted before. Refuses with
 * JET_ERR_MEMORY, or with JET_ERR_SIZE when another key would be one too many (or a count). */
jet_status jet_tally_add(jet_tally *t, const uint8_t key[JET_TALLY_KEY], uint32_t *before);
/* Forget every key; the memory stays. */
void jet_tally_clear(jet_tally *t);

#endif
