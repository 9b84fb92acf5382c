/* jet_jsack, jet_puback, jet_slots, jet_utf8, jet_header and the number scanners. */
#include "check.h"

static jet_status jsack(jet_span text, jet_jsack *out) {
    static jet_span last;
    unfence(last);
    last = fenced(text);
    return jet_jsack_parse(last, out);
}

void suite_jsack(void) {
    jet_jsack a;
    CHECK(jsack(S("$JS.ACK.ORDERS.worker.2.35.7.1795229586547204964.12"), &a) == JET_OK);
    CHECK(a.domain.len == 0 && a.account_hash.len == 0);
    CHECK(same(a.stream, S("ORDERS")) && same(a.consumer, S("worker")));
    CHECK(a.num_delivered == 2 && a.stream_seq == 35 && a.consumer_seq == 7);
    CHECK(a.timestamp_ns == 1795229586547204964 && a.num_pending == 12);

    CHECK(jsack(S("$JS.ACK.hub.HASH.S.C.1.2.3.4.5"), &a) == JET_OK);
    CHECK(same(a.domain, S("hub")) && same(a.account_hash, S("HASH")) && same(a.stream, S("S")));
    CHECK(jsack(S("$JS.ACK._.HASH.S.C.1.2.3.4.5.random.more"), &a) == JET_OK);
    CHECK(a.domain.len == 0 && a.num_pending == 5);
    CHECK(jsack(S("$JS.ACK.S.C.18446744073709551615.1.1.9223372036854775807.0"), &a) == JET_OK);

    /* Digits are read eight at a time where there are so many: whatever stands behind them. */
    static const char digits[] = "9081726354", ends[] = "./:0";
    uint64_t number;
    for (size_t n = 0; n < sizeof digits; n++)
        for (const char *end = ends; *end; end++) {
            char text[16];
            size_t length = (size_t)sprintf(text, "%.*s%c7", (int)n, digits, *end);
            uint64_t wanted = strtoull(text, NULL, 10);
            jet_span s = fenced(jet_span_of((uint8_t *)text, length));
            size_t found = jet_scan_leading_u64(s, &number);
            CHECK(found == (*end == '0' ? n + 2 : n) && (found == 0 || number == wanted));
            unfence(s);
        }

    jet_span bad[] = {
        S(""), S("$JS.ACK."), S("$JS.ACK"), S("$JS.ACK.S.C.1.2.3.4"), S("$JS.ACK.a.S.C.1.2.3.4.5"),
        S("$JS.ACK.S.C.1.2.3.4."), S("$JS.ACK..C.1.2.3.4.5"), S("$JS.ACK.S.C.x.2.3.4.5"),
        S("$JS.ACK.S.C.-1.2.3.4.5"), S("$JS.ACK.S.C.18446744073709551616.2.3.4.5"),
        S("$JS.ACK.S.C.1.2.3.9223372036854775808.5"), S("$JS.NAK.S.C.1.2.3.4.5"),
        S("_INBOX.x"), S("$JS.ACK.a.b.S.C.1.2.3.4.5."), S("........"),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) CHECK(jsack(bad[i], &a) == JET_ERR_TOKENS);

    /* The sequences alone; names of v2 that are numbers are not mistaken for them. */
    uint64_t stream = 0, consumer = 0;
    CHECK(jsack(S("$JS.ACK.d.h.7.8.1.2.3.4.5"), &a) == JET_OK && same(a.stream, S("7")));
    jet_span subjects[] = {
        S("$JS.ACK.S.C.1.2.3.4.5"), S("$JS.ACK.d.h.7.8.1.2.3.4.5"), S("$JS.ACK.d.h.S.C.1.2.3.4.5.x"),
        S("$JS.ACK.7.8.9.1.1.2.3.4.5.6"),
    };
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
        CHECK(jet_jsack_sequences(subjects[i], &stream, &consumer) == JET_OK);
        CHECK(jsack(subjects[i], &a) == JET_OK);
        CHECK(stream == a.stream_seq && consumer == a.consumer_seq);
    }
    jet_span none[] = {S(""), S("$JS.ACK."), S("$JS.ACK.S.C.1.2.3"), S("$JS.ACK.S.C.1.2.3."),
                       S("$JS.ACK.S.C.1.2.3.4"), S("$JS.ACK.S.C.1.2.x.4.5"), S("_INBOX.x")};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        CHECK(jet_jsack_sequences(none[i], &stream, &consumer) == JET_ERR_TOKENS);
    jsack(S(""), &a);
}

static int puback(jet_span text, jet_puback *out) {
    static jet_span last;
    unfence(last);
    last = fenced(text);
    return jet_puback_parse(last, out);
}

/* Whatever came before, each text is read as if it was the only one. */
static void check_next(void) {
    jet_span texts[] = {
        S("{\"stream\":\"S\",\"seq\":1}"), S("{\"stream\":\"S\",\"seq\":2}"),
        S("{\"stream\":\"S\",\"seq\":18446744073709551615}"),
        S("{\"stream\":\"S\",\"seq\":18446744073709551616}"), S("{\"stream\":\"S\",\"seq\":0}"),
        S("{\"stream\":\"S\",\"seq\":}"), S("{\"stream\":\"S\",\"seq\":7"), S("{\"stream\":\"S\",\"seq\":"),
        S("{\"stream\":\"S\",\"seq\":8,\"duplicate\": true}"), S("{\"stream\":\"T\",\"seq\":9}"),
        S("{\"stream\":\"S\",\"seq\":3,\"count\":3}"), S("{\"stream\":\"S\",\"seq\":3,\"count\":4}"),
        S("{\"duplicate\":true,\"stream\":\"S\", \"seq\":4}"),
        S("{\"duplicate\":true,\"stream\":\"S\", \"seq\":5}"),
        S("{\"stream\":\"S\",\"domain\":\"hub\",\"seq\":6}"), S("{\"seq\":1,\"stream\":\"S\"}"),
        S("{\"error\":{},\"stream\":\"S\",\"seq\":1}"), S(""), S("}"),
    };
    size_t n = sizeof texts / sizeof *texts;
    for (size_t first = 0; first < n; first++) {
        for (size_t then = 0; then < n; then++) {
            jet_puback_form form;
            jet_puback a, b;
            memset(&form, 0, sizeof form);
            jet_puback_next(&form, texts[first], &a);
            jet_span text = fenced(texts[then]);
            int read = jet_puback_next(&form, text, &a);
            CHECK(read == jet_puback_parse(text, &b));
            if (read) {
                CHECK(a.seq == b.seq && a.duplicate == b.duplicate && a.further == b.further);
                CHECK(a.stream.ptr == b.stream.ptr && a.stream.len == b.stream.len);
            }
            unfence(text);
        }
    }
    char named[400] = "{\"stream\":\"";
    memset(named + 11, 'n', 300);
    strcpy(named + 311, "\",\"seq\":5}");
    jet_puback_form form;
    jet_puback a;
    memset(&form, 0, sizeof form);
    for (int i = 0; i < 2; i++)
        CHECK(jet_puback_next(&form, jet_span_of((uint8_t *)named, strlen(named)), &a) && a.seq == 5);
    CHECK(a.stream.len == 300 && form.len == 0);
}

void suite_puback(void) {
    check_next();
    jet_puback a;
    CHECK(puback(S("{\"stream\":\"GP\",\"seq\":1}"), &a) && a.seq == 1 && !a.duplicate);
    CHECK(same(a.stream, S("GP")));
    CHECK(puback(S(" { \"seq\" : 2 ,\r\n\t\"duplicate\": true, \"stream\":\"S\" } "), &a));
    CHECK(a.seq == 2 && a.duplicate == 1);
    CHECK(puback(S("{\"stream\":\"S\",\"domain\":\"hub\",\"seq\":18446744073709551615}"), &a));
    CHECK(a.seq == UINT64_MAX);
    CHECK(puback(S("{\"stream\":\"S\",\"seq\":3,\"batch\":\"b\",\"count\":2,\"val\":\"5\"}"), &a));

    jet_span bad[] = {
        S(""), S("{"), S("{}"), S("[]"), S("{\"stream\""), S("{\"stream\":"), S("{\"stream\":\"S"),
        S("{\"stream\":\"S\"}"), S("{\"seq\":1}"), S("{\"stream\":\"S\",\"seq\":0}"),
        S("{\"stream\":\"S\",\"seq\":-1}"), S("{\"stream\":\"S\",\"seq\":1.5}"),
        S("{\"stream\":\"S\",\"seq\":1"), S("{\"stream\":\"S\",\"seq\":1}x"),
        S("{\"stream\":\"S\",\"seq\":1,}"), S("{\"stream\":\"S\",\"seq\":\"1\"}"),
        S("{\"stream\":\"S\",\"seq\":18446744073709551616}"), S("{\"stream\":\"a\\\"b\",\"seq\":1}"),
        S("{\"error\":{\"code\":400},\"stream\":\"S\",\"seq\":1}"),
        S("{\"error\":\"text\",\"stream\":\"S\",\"seq\":1}"),
        S("{\"stream\":\"S\",\"seq\":1,\"error\":{\"code\":400}}"),
        S("{\"stream\":\"S\nT\",\"seq\":1}"), S("+ACK"),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) CHECK(!puback(bad[i], &a));
    puback(S(""), &a);
}

void suite_token(void) {
    /* The key and the answer of the reference implementation: bytes 0 to 15, and bytes 0 to 7. */
    const jet_token_key key = {{0x0706050403020100u, 0x0f0e0d0c0b0a0908u}};
    const jet_token_key other = {{0x0706050403020100u, 0x0f0e0d0c0b0a0909u}};
    uint8_t text[JET_TOKEN_MAX];
    uint64_t number = 0;
    size_t n = jet_token_write(&key, 0x0706050403020100u, text);
    jet_span token = jet_span_of(text, n);
    CHECK(same(token, S("506097522914230528_93f5f5799a932462")));
    CHECK(jet_token_read(&key, token, &number) == n && number == 0x0706050403020100u);
    CHECK(jet_token_write(&key, UINT64_MAX, text) == JET_TOKEN_MAX);

    n = jet_token_write(&key, 7, text);
    for (size_t i = 0; i < n; i++) {
        /* Nothing shorter, and no other byte in any place. */
        jet_span part = fenced(jet_span_of(text, i));
        CHECK(jet_token_read(&key, part, &number) == 0);
        unfence(part);
        uint8_t byte = text[i];
        for (int c = 0; c < 256; c++) {
            if (c == byte) continue;
            text[i] = (uint8_t)c;
            CHECK(jet_token_read(&key, jet_span_of(text, n), &number) == 0);
        }
        text[i] = byte;
    }
    number = 1;
    CHECK(jet_token_read(&other, jet_span_of(text, n), &number) == 0 && number == 1);
    memcpy(text + n, "-12", 3);
    CHECK(jet_token_read(&key, jet_span_of(text, n + 3), &number) == n && number == 7);
}

void suite_slots(void) {
    jet_slots t;
    int a, b;
    jet_slots_init(&t);
    CHECK(jet_slots_add(&t, &a) == 1 && jet_slots_add(&t, &b) == 2 && t.count == 2);
    CHECK(jet_slots_get(&t, 1) == &a && jet_slots_get(&t, 2) == &b);
    CHECK(jet_slots_get(&t, 0) == NULL && jet_slots_get(&t, 3) == NULL);
    CHECK(jet_slots_get(&t, UINT64_MAX) == NULL && jet_slots_remove(&t, 17) == NULL);

    /* An index comes back under another key; the old key names nothing. */
    CHECK(jet_slots_remove(&t, 1) == &a && jet_slots_remove(&t, 1) == NULL && t.count == 1);
    uint64_t again = jet_slots_add(&t, &a);
    CHECK(again != 1 && jet_slots_get(&t, again) == &a && jet_slots_get(&t, 1) == NULL);
    for (int i = 0; i < 1000; i++) {
        uint64_t old = again;
        CHECK(jet_slots_remove(&t, old) == &a);
        again = jet_slots_add(&t, &a);
        CHECK(again != old && jet_slots_get(&t, old) == NULL);
    }
    CHECK(t.used == 2);

    /* Many at once, removed in another order. */
    static uint64_t key[5000];
    for (size_t i = 0; i < 5000; i++) key[i] = jet_slots_add(&t, &key[i]);
    for (size_t i = 0; i < 5000; i += 3) CHECK(jet_slots_remove(&t, key[i]) == &key[i]);
    for (size_t i = 0; i < 5000; i++)
        CHECK(jet_slots_get(&t, key[i]) == (i % 3 ? (void *)&key[i] : NULL));
    jet_slots_free(&t);
    CHECK(jet_slots_get(&t, again) == NULL && t.count == 0);

    fail_allocation(1);
    CHECK(jet_slots_add(&t, &a) == 0 && t.count == 0);
    CHECK(jet_slots_add(&t, &a) == 1);
    jet_slots_free(&t);
}

static int becomes(jet_span in, jet_span expected) {
    uint8_t out[64];
    jet_span f = fenced(in);
    size_t n = jet_utf8_lossy_len(f);
    int ok = n == expected.len && jet_utf8_lossy_copy(f, out) == n &&
             same(jet_span_of(out, n), expected);
    unfence(f);
    return ok;
}

#define R "\xEF\xBF\xBD"

void suite_utf8(void) {
    CHECK(becomes(S(""), S("")));
    CHECK(becomes(S("plain ascii, longer than a word"), S("plain ascii, longer than a word")));
    CHECK(becomes(S("\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"), S("\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80")));
    CHECK(becomes(S("\xF4\x8F\xBF\xBF\xED\x9F\xBF"), S("\xF4\x8F\xBF\xBF\xED\x9F\xBF")));
    CHECK(becomes(S("a\xFFz"), S("a" R "z")));
    CHECK(becomes(S("\x80"), S(R)));
    CHECK(becomes(S("\xC0\x80"), S(R R)));             /* overlong NUL */
    CHECK(becomes(S("\xE0\x9F\xBF"), S(R R R)));       /* overlong */
    CHECK(becomes(S("\xED\xA0\x80"), S(R R R)));       /* a surrogate */
    CHECK(becomes(S("\xF0\x8F\xBF\xBF"), S(R R R R))); /* overlong */
    CHECK(becomes(S("\xF4\x90\x80\x80"), S(R R R R))); /* beyond the last code point */
    CHECK(becomes(S("\xF5"), S(R)));
    CHECK(becomes(S("\xE2\x82"), S(R R)));             /* cut off at the end */
    CHECK(becomes(S("\xC3"), S(R)));
    CHECK(becomes(S("12345678\xC3"), S("12345678" R)));
    CHECK(becomes(S("\xF0\x9F\x98x"), S(R R R "x")));
}

static jet_span block;

static size_t lines(jet_span text, uint32_t *malformed) {
    jet_header_iter it;
    jet_span name, value;
    size_t n = 0;
    unfence(block);
    block = fenced(text);
    jet_header_begin(&it, block);
    while (jet_header_next(&it, &name, &value)) {
        CHECK(name.len > 0 && memchr(name.ptr, ':', name.len) == NULL);
        n++;
    }
    *malformed = it.malformed;
    return n;
}

static int status(jet_span text) {
    jet_span f = fenced(text);
    int found = jet_header_status(f);
    unfence(f);
    return found;
}

void suite_header(void) {
    uint32_t bad;
    jet_span value;
    CHECK(lines(S(""), &bad) == 0 && bad == 0);
    CHECK(lines(S("NATS/1.0\r\n\r\n"), &bad) == 0 && bad == 0);
    CHECK(lines(S("NATS/1.0\r\nA: b\r\nA:c\r\n\r\n"), &bad) == 2 && bad == 0);
    CHECK(jet_header_find(block, S("A"), &value) && same(value, S("b")));
    CHECK(!jet_header_find(block, S("a"), &value));
    CHECK(lines(S("A: b"), &bad) == 1 && bad == 0);
    CHECK(lines(S("NATS/1.0\r\n:x\r\nno colon\r\n:\r\nE:\r\n\r\nAfter: blank\r\n"), &bad) == 2);
    CHECK(bad == 3);
    CHECK(jet_header_find(block, S("E"), &value) && value.len == 0);
    CHECK(lines(S("\r\r\n\r"), &bad) == 0 && bad == 2);
    lines(S(""), &bad);

    CHECK(status(S("NATS/1.0 503")) == 503 && status(S("NATS/1.0 503\r\n\r\n")) == 503);
    CHECK(status(S("NATS/1.0\t 404 No\r\n")) == 404);
    CHECK(status(S("")) == 0 && status(S("NATS/1.0")) == 0 && status(S("NATS/1.0 50")) == 0);
    CHECK(status(S("NATS/1.0 5033")) == 0 && status(S("NATS/1.0 099")) == 0);
    CHECK(status(S("NATS/1.0    ")) == 0 && status(S("NATS/1.0    12")) == 0);
    CHECK(status(S("NATS/1.0503")) == 0 && status(S("NATS/1.1 503")) == 0);
    CHECK(same(jet_header_description(S("NATS/1.0 409  Batch Completed \r\nA: b\r\n\r\n")),
               S("Batch Completed")));
    CHECK(jet_header_description(S("NATS/1.0 503\r\n\r\n")).len == 0);
    CHECK(jet_header_description(S("NATS/1.0\r\n\r\n")).len == 0);

    jet_buf out;
    jet_buf_init(&out);
    CHECK(jet_header_append(&out, S("A"), S("b c")) == JET_OK && same(content(&out), S("A: b c\r\n")));
    CHECK(jet_header_append(&out, S("~!"), S("")) == JET_OK);
    size_t before = jet_buf_len(&out);
    jet_span names[] = {S(""), S("a:"), S("a b"), S("a\r"), S("a\0"), S("\x7f"), S("\xc3\xa9")};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK(jet_header_append(&out, names[i], S("v")) == JET_ERR_HEADER);
    jet_span values[] = {S("a\r"), S("\n"), S("a\0b")};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        CHECK(jet_header_append(&out, S("K"), values[i]) == JET_ERR_HEADER);
    CHECK(jet_buf_len(&out) == before);
    jet_buf_free(&out);
    fail_allocation(1);
    CHECK(jet_header_append(&out, S("K"), S("v")) == JET_ERR_MEMORY && jet_buf_len(&out) == 0);
    jet_buf_free(&out);
}
