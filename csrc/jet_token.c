#include "jet_token.h"

#include <string.h>

#include "jet_encode.h"
#include "jet_scan.h"

#define HASH_DIGITS 16

static inline uint64_t rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

typedef struct sip {
    uint64_t a, b, c, d;
} sip;

/* By value, so that all of it stays in registers. */
static inline sip sip_rounds(sip v, int rounds) {
    while (rounds--) {
        v.a += v.b, v.b = rotate(v.b, 13) ^ v.a, v.a = rotate(v.a, 32);
        v.c += v.d, v.d = rotate(v.d, 16) ^ v.c;
        v.a += v.d, v.d = rotate(v.d, 21) ^ v.a;
        v.c += v.b, v.b = rotate(v.b, 17) ^ v.c, v.c = rotate(v.c, 32);
    }
    return v;
}

static inline sip absorb(sip v, uint64_t word) {
    v.d ^= word;
    v = sip_rounds(v, 2);
    v.a ^= word;
    return v;
}

/* SipHash-2-4 of the eight bytes of a number, lowest first (Aumasson and Bernstein, 2012). */
uint64_t jet_token_hash(const jet_token_key *key, uint64_t number) {
    const uint64_t a = key->word[0], b = key->word[1];
    sip v = {a ^ 0x736f6d6570736575u, b ^ 0x646f72616e646f6du, a ^ 0x6c7967656e657261u,
             b ^ 0x7465646279746573u};
    v = absorb(v, number);
    v = absorb(v, (uint64_t)8 << 56); /* how many bytes there were */
    v.c ^= 0xff;
    v = sip_rounds(v, 4);
    return v.a ^ v.b ^ v.c ^ v.d;
}

/* 32 bits as eight hexadecimal digits, the highest first in memory: all of them at once. */
static inline uint64_t eight_digits(uint64_t x) {
    x = (x | x << 16) & 0x0000ffff0000ffffu;
    x = (x | x << 8) & 0x00ff00ff00ff00ffu;
    x = (x | x << 4) & 0x0f0f0f0f0f0f0f0fu; /* one digit in each byte */
    uint64_t letters = (x + 0x0606060606060606u) >> 4 & 0x0101010101010101u;
    x += 0x3030303030303030u + letters * ('a' - '0' - 10);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    return x;
}

typedef struct proof {
    uint64_t high, low; /* their digits */
} proof;

static inline proof proof_of(const jet_token_key *key, uint64_t number) {
    uint64_t hash = jet_token_hash(key, number);
    proof p = {eight_digits(hash >> 32), eight_digits(hash & 0xffffffffu)};
    return p;
}

size_t jet_token_write(const jet_token_key *key, uint64_t number, uint8_t *out) {
    size_t n = jet_encode_u64(out, number);
    proof made = proof_of(key, number);
    out[n++] = '_';
    memcpy(out + n, &made.high, 8);
    memcpy(out + n + 8, &made.low, 8);
    return n + HASH_DIGITS;
}

size_t jet_token_read(const jet_token_key *key, jet_span text, uint64_t *number) {
    uint64_t found, high, low;
    size_t n = jet_scan_leading_u64(text, &found);
    if (n == 0 || text.len < n + 1 + HASH_DIGITS || text.ptr[n] != '_') return 0;
    proof made = proof_of(key, found);
    memcpy(&high, text.ptr + n + 1, 8);
    memcpy(&low, text.ptr + n + 9, 8);
    /* Takes the same time wherever the first difference is. */
    if (((high ^ made.high) | (low ^ made.low)) != 0) return 0;
    *number = found;
    return n + 1 + HASH_DIGITS;
}
