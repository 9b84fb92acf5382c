/* jet_token - the last part of a reply subject: the request that a reply belongs to, and the proof
 * that its sender has seen the request.
 *
 * A token is "<number>_<16 hex digits>". The digits are a keyed hash of the number (SipHash-2-4), so
 * without the key a token is a guess at 64 bits, even with all earlier tokens known.
 * The numbers alone can be counted up. */
#ifndef JET_TOKEN_H
#define JET_TOKEN_H

#include "jet_types.h"

/* 128 bits from the system's random generator; never sent or logged. */
typedef struct jet_token_key {
    uint64_t word[2];
} jet_token_key;

#define JET_TOKEN_PROOF 17u                   /* "_" and 16 digits */
#define JET_TOKEN_MAX (20u + JET_TOKEN_PROOF) /* behind the digits of the number */

/* The keyed hash of a number: to those without the key, 64 bits by chance. */
uint64_t jet_token_hash(const jet_token_key *key, uint64_t number);

/* Write the token of a number; returns its length. `out` has room for JET_TOKEN_MAX bytes. */
size_t jet_token_write(const jet_token_key *key, uint64_t number, uint8_t *out);

/* Read the token at the start of `text`. Returns its length, or 0 when there is none made with this
 * key. Comparing takes the same time wherever two hashes differ. */
size_t jet_token_read(const jet_token_key *key, jet_span text, uint64_t *number);

#endif
