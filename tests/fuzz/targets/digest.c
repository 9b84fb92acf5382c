/* Invariants of jet_blake2 and jet_tally, for any bytes:
 *
 *   - a digest does not depend on the pieces that its bytes come in, nor on copies on the way;
 *   - one other byte, or one byte more, makes another digest;
 *   - a tally counts each key as often as it was met, up to its limit of different keys, and a
 *     refused key changes nothing.
 */
#include "fuzz.h"

#define KEYS 40

typedef struct digest {
    uint8_t bytes[JET_TALLY_KEY];
} digest;

static digest digest_in_pieces(jet_span s, size_t piece) {
    digest d;
    jet_blake2 state;
    jet_blake2_init(&state, sizeof d);
    while (s.len) {
        jet_blake2 next = state;
        jet_blake2_add(&next, cut(&s, piece));
        state = next;
    }
    jet_blake2_end(&state, d.bytes);
    return d;
}

static int equal(digest a, digest b) { return memcmp(a.bytes, b.bytes, sizeof a.bytes) == 0; }

static void check_digest(jet_span s) {
    digest whole = digest_in_pieces(s, s.len);
    size_t piece = 1 + (s.len ? s.ptr[0] : 0);
    CHECK(equal(whole, digest_in_pieces(s, piece)));
    uint8_t *other = fence(s.len + 1);
    if (s.len) memcpy(other, s.ptr, s.len);
    other[s.len] = 0;
    CHECK(!equal(whole, digest_in_pieces(jet_span_of(other, s.len + 1), s.len + 1)));
    if (s.len) {
        other[s.len / 2] ^= 1;
        CHECK(!equal(whole, digest_in_pieces(jet_span_of(other, s.len), s.len)));
    }
    unfence(jet_span_of(other, s.len + 1));
}

/* Each byte names a key; those of one remainder are alike in the bytes that choose the place. */
static void check_tally(jet_span calls) {
    jet_tally t;
    uint32_t counts[KEYS] = {0}, before;
    size_t used = 0, limit = 1 + cut_byte(&calls) % KEYS;
    jet_tally_init(&t, limit);
    while (calls.len) {
        unsigned call = cut_byte(&calls);
        unsigned n = call % KEYS;
        uint8_t key[JET_TALLY_KEY] = {(uint8_t)(n % 3)};
        key[11] = (uint8_t)n;
        if (call == 255) {
            jet_tally_clear(&t);
            memset(counts, 0, sizeof counts);
            used = 0;
            continue;
        }
        jet_status status = jet_tally_add(&t, key, &before);
        if (counts[n] || used < limit) {
            CHECK(status == JET_OK && before == counts[n]);
            used += counts[n]++ == 0;
        } else {
            CHECK(status == JET_ERR_SIZE);
        }
        CHECK(t.used == used);
    }
    jet_tally_free(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    jet_span s = jet_span_of(data, size);
    check_digest(s);
    check_tally(s);
    return 0;
}
