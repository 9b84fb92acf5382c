#include "jet_blake2.h"

#include <string.h>

static const uint64_t IV[8] = {
    0x6A09E667F3BCC908ull, 0xBB67AE8584CAA73Bull, 0x3C6EF372FE94F82Bull, 0xA54FF53A5F1D36F1ull,
    0x510E527FADE682D1ull, 0x9B05688C2B3E6C1Full, 0x1F83D9ABFB41BD6Bull, 0x5BE0CD19137E2179ull,
};

/* Written out, compilers make one instruction of it where they can. */
static inline uint64_t load(const uint8_t *p) {
    return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 |
           (uint64_t)p[4] << 32 | (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 | (uint64_t)p[7] << 56;
}

static inline uint64_t rotate(uint64_t word, int right) {
    return word >> right | word << (64 - right);
}

#define MIX(a, b, c, d, x, y)          \
    do {                               \
        a += b + (x);                  \
        d = rotate(d ^ a, 32);         \
        c += d;                        \
        b = rotate(b ^ c, 24);         \
        a += b + (y);                  \
        d = rotate(d ^ a, 16);         \
        c += d;                        \
        b = rotate(b ^ c, 63);         \
    } while (0)

/* One round with its order of the message words; written out, so that all stays in registers. */
#define ROUND(p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, pa, pb, pc, pd, pe, pf) \
    do {                                                                      \
        MIX(v0, v4, v8, vc, m[p0], m[p1]);                                    \
        MIX(v1, v5, v9, vd, m[p2], m[p3]);                                    \
        MIX(v2, v6, va, ve, m[p4], m[p5]);                                    \
        MIX(v3, v7, vb, vf, m[p6], m[p7]);                                    \
        MIX(v0, v5, va, vf, m[p8], m[p9]);                                    \
        MIX(v1, v6, vb, vc, m[pa], m[pb]);                                    \
        MIX(v2, v7, v8, vd, m[pc], m[pd]);                                    \
        MIX(v3, v4, v9, ve, m[pe], m[pf]);                                    \
    } while (0)

/* Take one block into the chain. */
static void compress(jet_blake2 *s, const uint8_t *block, int last) {
    uint64_t m[16];
    uint64_t *h = s->chain;
    for (int i = 0; i < 16; i++) m[i] = load(block + 8 * i);
    uint64_t v0 = h[0], v1 = h[1], v2 = h[2], v3 = h[3], v4 = h[4], v5 = h[5], v6 = h[6], v7 = h[7];
    uint64_t v8 = IV[0], v9 = IV[1], va = IV[2], vb = IV[3];
    uint64_t vc = IV[4] ^ s->total, vd = IV[5], ve = last ? ~IV[6] : IV[6], vf = IV[7];
    ROUND(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    ROUND(14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3);
    ROUND(11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4);
    ROUND(7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8);
    ROUND(9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13);
    ROUND(2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9);
    ROUND(12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11);
    ROUND(13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10);
    ROUND(6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5);
    ROUND(10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0);
    ROUND(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    ROUND(14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3);
    h[0] ^= v0 ^ v8, h[1] ^= v1 ^ v9, h[2] ^= v2 ^ va, h[3] ^= v3 ^ vb;
    h[4] ^= v4 ^ vc, h[5] ^= v5 ^ vd, h[6] ^= v6 ^ ve, h[7] ^= v7 ^ vf;
}

void jet_blake2_init(jet_blake2 *s, size_t digest) {
    memcpy(s->chain, IV, sizeof IV);
    s->chain[0] ^= 0x01010000u ^ digest; /* fanout and depth of a plain hash, no key */
    s->total = 0;
    s->waiting = 0;
    s->digest = digest;
}

void jet_blake2_add(jet_blake2 *s, jet_span bytes) {
    /* The last block must wait for the end, also when it is full. */
    while (bytes.len > JET_BLAKE2_BLOCK - s->waiting) {
        const uint8_t *block = bytes.ptr;
        size_t n = JET_BLAKE2_BLOCK - s->waiting;
        if (s->waiting) {
            memcpy(s->block + s->waiting, bytes.ptr, n);
            block = s->block;
        }
        s->total += JET_BLAKE2_BLOCK;
        compress(s, block, 0);
        s->waiting = 0;
        bytes.ptr += n;
        bytes.len -= n;
    }
    if (bytes.len) memcpy(s->block + s->waiting, bytes.ptr, bytes.len);
    s->waiting += bytes.len;
}

void jet_blake2_end(jet_blake2 *s, uint8_t *digest) {
    memset(s->block + s->waiting, 0, JET_BLAKE2_BLOCK - s->waiting);
    s->total += s->waiting;
    compress(s, s->block, 1);
    for (size_t i = 0; i < s->digest; i++) digest[i] = (uint8_t)(s->chain[i / 8] >> (8 * (i % 8)));
}
