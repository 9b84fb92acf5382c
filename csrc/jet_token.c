#include "jet_token.h"

#include <string.h>

#include "jet_encode.h"
#include "jet_scan.h"

#define HASH_DIGITS 16

static uint64_t rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static void sip_round(uint64_t v[4]) {
    v[0] += v[1], v[1] = rotate(v[1], 13) ^ v[0], v[0] = rotate(v[0], 32);
    v[2] += v[3], v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3], v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1], v[1] = rotate(v[1], 17) ^ v[2], v[2] = rotate(v[2], 32);
}

static void absorb(uint64_t v[4], uint64_t word) {
    v[3] ^= word;
    sip_round(v);
    sip_round(v);
    v[0] ^= word;
}

/* SipHash-2-4 of the eight bytes of a number, lowest first (Aumasson and Bernstein, 2012). */
uint64_t jet_token_hash(const jet_token_key *key, uint64_t number) {
    const uint64_t a = key->word[0], b = key->word[1];
    uint64_t v[4] = {a ^ 0x736f6d6570736575u, b ^ 0x646f72616e646f6du, a ^ 0x6c7967656e657261u,
                     b ^ 0x7465646279746573u};
    absorb(v, number);
    absorb(v, (uint64_t)8 << 56); /* how many bytes there were */
    v[2] ^= 0xff;
    for (int i = 0; i < 4; i++) sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Write 32 bits as eight hexadecimal digits, the highest first: all of them at once. */
static void write_eight(uint64_t x, uint8_t *out) {
    x = (x | x << 16) & 0x0000ffff0000ffffu;
    x = (x | x << 8) & 0x00ff00ff00ff00ffu;
    x = (x | x << 4) & 0x0f0f0f0f0f0f0f0fu; /* one digit in each byte */
    uint64_t letters = (x + 0x0606060606060606u) >> 4 & 0x0101010101010101u;
    x += 0x3030303030303030u + letters * ('a' - '0' - 10);
    for (int i = 0; i < 8; i++) out[i] = (uint8_t)(x >> (56 - 8 * i));
}

static void write_proof(const jet_token_key *key, uint64_t number, uint8_t *out) {
    uint64_t hash = jet_token_hash(key, number);
    write_eight(hash >> 32, out);
    write_eight(hash & 0xffffffffu, out + 8);
}

size_t jet_token_write(const jet_token_key *key, uint64_t number, uint8_t *out) {
    size_t n = jet_encode_u64(out, number);
    out[n++] = '_';
    write_proof(key, number, out + n);
    return n + HASH_DIGITS;
}

size_t jet_token_read(const jet_token_key *key, jet_span text, uint64_t *number) {
    uint64_t found, got[2], want[2];
    size_t n = jet_scan_leading_u64(text, &found);
    if (n == 0 || text.len < n + 1 + HASH_DIGITS || text.ptr[n] != '_') return 0;
    write_proof(key, found, (uint8_t *)want);
    memcpy(got, text.ptr + n + 1, HASH_DIGITS);
    /* Takes the same time wherever the first difference is. */
    if (((got[0] ^ want[0]) | (got[1] ^ want[1])) != 0) return 0;
    *number = found;
    return n + 1 + HASH_DIGITS;
}
