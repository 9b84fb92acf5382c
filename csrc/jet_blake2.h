/* jet_blake2 - BLAKE2b without a key (RFC 7693): a short digest of any bytes. */
#ifndef JET_BLAKE2_H
#define JET_BLAKE2_H

#include "jet_types.h"

#define JET_BLAKE2_BLOCK 128
#define JET_BLAKE2_MAX_DIGEST 64

/* May be copied: each copy goes on from what was added so far. Owns no memory. */
typedef struct jet_blake2 {
    uint64_t chain[8];
    uint64_t total; /* bytes that are in the chain */
    size_t waiting; /* bytes in `block` */
    size_t digest;  /* bytes of the digest */
    uint8_t block[JET_BLAKE2_BLOCK];
} jet_blake2;

/* Begin a digest of 1 to 64 bytes. */
void jet_blake2_init(jet_blake2 *s, size_t digest);
/* Add bytes; fewer than 2^64 in all. */
void jet_blake2_add(jet_blake2 *s, jet_span bytes);
/* Write the digest. Begin anew, or from a copy, for another one. */
void jet_blake2_end(jet_blake2 *s, uint8_t *digest);

#endif
