/* jet_blake2 and jet_tally. */
#include "check.h"

static int digest_is(jet_span text, size_t size, const char *hex) {
    uint8_t digest[JET_BLAKE2_MAX_DIGEST], *exact = malloc(size);
    char shown[2 * JET_BLAKE2_MAX_DIGEST + 1] = "";
    jet_span f = fenced(text);
    jet_blake2 s;
    jet_blake2_init(&s, size);
    jet_blake2_add(&s, f);
    jet_blake2_end(&s, exact);
    memcpy(digest, exact, size);
    for (size_t i = 0; i < size; i++) sprintf(shown + 2 * i, "%02x", digest[i]);
    unfence(f);
    free(exact);
    return strcmp(shown, hex) == 0;
}

void suite_blake2(void) {
    /* RFC 7693, appendix A. */
    CHECK(digest_is(S("abc"), 64,
                    "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d1"
                    "7d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923"));
    CHECK(digest_is(S(""), 64,
                    "786a02f742015903c6c6fd852552d272912f4740e15847618a86e217f71f5419"
                    "d25e1031afee585313896444934eb04b903a685b1448b755d56f701afe9be2ce"));

    /* In any pieces, also of copies, the same comes out: around the borders of blocks. */
    static uint8_t text[3 * JET_BLAKE2_BLOCK + 1];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (uint8_t)(i * 7);
    for (size_t n = 0; n <= sizeof text; n++) {
        uint8_t whole[12], pieces[12];
        jet_blake2 s, copy;
        jet_blake2_init(&s, 12);
        copy = s;
        jet_blake2_add(&s, jet_span_of(text, n));
        jet_blake2_end(&s, whole);
        for (size_t at = 0; at < n; at += 50) {
            jet_blake2 next = copy;
            jet_blake2_add(&next, jet_span_of(text + at, n - at < 50 ? n - at : 50));
            jet_blake2_add(&next, S(""));
            copy = next;
        }
        jet_blake2_end(&copy, pieces);
        CHECK(memcmp(whole, pieces, sizeof whole) == 0);
    }
}

static jet_status met(jet_tally *t, uint64_t number, uint32_t *before) {
    uint8_t key[JET_TALLY_KEY] = {0};
    /* Many share the first bytes: also keys that are no good digests are told apart. */
    key[0] = (uint8_t)number;
    memcpy(key + 8, &(uint32_t){(uint32_t)(number >> 8)}, 4);
    return jet_tally_add(t, key, before);
}

void suite_tally(void) {
    jet_tally t;
    uint32_t before;
    jet_tally_init(&t, 3000);
    for (uint32_t round = 0; round < 3; round++)
        for (uint64_t n = 0; n < 3000; n++) CHECK(met(&t, n, &before) == JET_OK && before == round);
    CHECK(t.used == 3000 && t.cap == 4096);
    CHECK(met(&t, 3000, &before) == JET_ERR_SIZE && t.used == 3000);
    CHECK(met(&t, 7, &before) == JET_OK && before == 3);

    jet_tally_clear(&t);
    CHECK(t.used == 0 && t.cap == 4096);
    CHECK(met(&t, 3000, &before) == JET_OK && before == 0);
    CHECK(met(&t, 7, &before) == JET_OK && before == 0);
    jet_tally_free(&t);
    jet_tally_free(&t);
    jet_tally_clear(&t);
    CHECK(t.limit == 3000 && t.cap == 0);

    /* Without memory nothing is counted, and what was counted stays. */
    fail_allocation(1);
    CHECK(met(&t, 1, &before) == JET_ERR_MEMORY && t.used == 0);
    for (uint64_t n = 0; n < 768; n++) CHECK(met(&t, n, &before) == JET_OK && before == 0);
    fail_allocation(1);
    CHECK(met(&t, 768, &before) == JET_ERR_MEMORY && t.used == 768);
    for (uint64_t n = 0; n < 768; n++) CHECK(met(&t, n, &before) == JET_OK && before == 1);
    CHECK(met(&t, 768, &before) == JET_OK && before == 0 && t.cap == 2048);

    /* A count has an end, too. */
    for (size_t i = 0; i < t.cap; i++)
        if (t.entry[i].count) t.entry[i].count = UINT32_MAX;
    CHECK(met(&t, 1, &before) == JET_ERR_SIZE);
    jet_tally_free(&t);
}
