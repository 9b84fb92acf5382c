/* Invariants of jet_token, for any text:
 *
 *   - what is accepted is the token of its number, written with the same key, and nothing else;
 *   - a token of another number, or of another key, is not accepted in its place.
 *
 * Input: a key (16 bytes), a number (8 bytes), a byte to change, and a text to read.
 */
#include "fuzz.h"

static void check_text(const jet_token_key *key, jet_span text) {
    uint8_t own[JET_TOKEN_MAX];
    uint64_t number;
    size_t n = jet_token_read(key, text, &number);
    CHECK(n <= text.len);
    if (n == 0) return;
    size_t length = jet_token_write(key, number, own);
    /* A number may be written with zeros in front; the hash stands at the end. */
    CHECK(n >= 18 && length >= 18);
    CHECK(memcmp(text.ptr + n - 17, own + length - 17, 17) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    jet_token_key key, other;
    uint64_t number, found;
    uint8_t own[JET_TOKEN_MAX];
    if (size < 25) return 0;
    memcpy(&key, data, 16);
    memcpy(&number, data + 16, 8);
    jet_span text = fenced(jet_span_of(data + 25, size - 25));
    check_text(&key, text);
    unfence(text);

    size_t n = jet_token_write(&key, number, own);
    CHECK(n <= JET_TOKEN_MAX);
    CHECK(jet_token_read(&key, jet_span_of(own, n), &found) == n && found == number);
    other = key;
    other.word[data[24] & 1] ^= (uint64_t)1 << (data[24] >> 2);
    CHECK(jet_token_read(&other, jet_span_of(own, n), &found) == 0);
    own[data[24] % n] ^= 1;
    CHECK(jet_token_read(&key, jet_span_of(own, n), &found) == 0);
    return 0;
}
