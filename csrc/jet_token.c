#include "jet_token.h"

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
static uint64_t hash_of(const jet_token_key *key, uint64_t number) {
    const uint64_t a = key->word[0], b = key->word[1];
    uint64_t v[4] = {a ^ 0x736f6d6570736575u, b ^ 0x646f72616e646f6du, a ^ 0x6c7967656e657261u,
                     b ^ 0x7465646279746573u};
    absorb(v, number);
    absorb(v, (uint64_t)8 << 56); /* how many bytes there were */
    v[2] ^= 0xff;
    for (int i = 0; i < 4; i++) sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

size_t jet_token_write(const jet_token_key *key, uint64_t number, uint8_t *out) {
    size_t n = jet_encode_u64(out, number);
    uint64_t hash = hash_of(key, number);
    out[n++] = '_';
    for (int shift = 60; shift >= 0; shift -= 4) out[n++] = (uint8_t)"0123456789abcdef"[hash >> shift & 15];
    return n;
}

size_t jet_token_read(const jet_token_key *key, jet_span text, uint64_t *number) {
    uint64_t found, hash = 0;
    size_t n = jet_scan_leading_u64(text, &found);
    if (n == 0 || text.len < n + 1 + HASH_DIGITS || text.ptr[n] != '_') return 0;
    const uint8_t *digit = text.ptr + n + 1;
    for (int i = 0; i < HASH_DIGITS; i++) {
        unsigned d = digit[i], letter = d - 'a';
        d -= '0';
        if (d > 9 && letter > 5) return 0;
        hash = hash << 4 | (d > 9 ? letter + 10 : d);
    }
    if ((hash ^ hash_of(key, found)) != 0) return 0;
    *number = found;
    return n + 1 + HASH_DIGITS;
}
