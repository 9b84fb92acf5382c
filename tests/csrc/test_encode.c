/* jet_encode, jet_subject and jet_buf: what goes out, what is refused, what the buffer keeps. */
#include "check.h"

enum { LINE = JET_MAX_CONTROL_LINE };

static jet_buf out;

static int made(jet_status status, jet_span expected) {
    int ok = status == JET_OK && same(content(&out), expected);
    jet_buf_clear(&out, 0);
    return ok;
}

/* A refusal leaves the buffer as it was. */
static int refused(jet_status status, jet_status expected) {
    return status == expected && jet_buf_len(&out) == 0;
}

void suite_encode(void) {
    jet_span none = S("");
    jet_buf_init(&out);
    CHECK(made(jet_encode_pub(&out, S("a.b"), none, none, S("hello"), LINE), S("PUB a.b 5\r\nhello\r\n")));
    CHECK(made(jet_encode_pub(&out, S("a"), S("r"), none, none, LINE), S("PUB a r 0\r\n\r\n")));
    CHECK(made(jet_encode_pub(&out, S("a"), S("r"), S("HDR"), S("x"), LINE), S("HPUB a r 3 4\r\nHDRx\r\n")));
    CHECK(made(jet_encode_answer(&out, S("$JS.ACK.*"), none, S("+ACK"), LINE),
               S("PUB $JS.ACK.* 4\r\n+ACK\r\n")));
    CHECK(made(jet_encode_sub(&out, S("a.*.>"), none, 1, LINE), S("SUB a.*.> 1\r\n")));
    CHECK(made(jet_encode_sub(&out, S("a"), S("q"), UINT64_MAX, LINE),
               S("SUB a q 18446744073709551615\r\n")));
    CHECK(made(jet_encode_unsub(&out, 10, 0), S("UNSUB 10\r\n")));
    CHECK(made(jet_encode_unsub(&out, 10, 5), S("UNSUB 10 5\r\n")));
    CHECK(made(jet_encode_ping(&out), S("PING\r\n")));
    CHECK(made(jet_encode_pong(&out), S("PONG\r\n")));

    jet_span bad[] = {S(""), S("a b"), S("a\r\nb"), S("a\nb"), S("a\tb"), S("a\0b"), S("a\x7f"), S("\x1f")};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(refused(jet_encode_pub(&out, bad[i], none, none, none, LINE), JET_ERR_SUBJECT));
        CHECK(refused(jet_encode_answer(&out, bad[i], none, none, LINE), JET_ERR_SUBJECT));
        CHECK(refused(jet_encode_sub(&out, bad[i], none, 1, LINE), JET_ERR_SUBJECT));
        if (bad[i].len == 0) continue;
        CHECK(refused(jet_encode_pub(&out, S("a"), bad[i], none, none, LINE), JET_ERR_SUBJECT));
        CHECK(refused(jet_encode_answer(&out, S("a"), bad[i], none, LINE), JET_ERR_SUBJECT));
        CHECK(refused(jet_encode_sub(&out, S("a"), bad[i], 1, LINE), JET_ERR_SUBJECT));
    }

    /* The whole line counts, digits included: "PUB " and " 0" leave 4090 bytes for the subject. */
    uint8_t name[4200];
    memset(name, 's', sizeof name);
    CHECK(jet_encode_pub(&out, jet_span_of(name, 4090), none, none, none, LINE) == JET_OK);
    jet_buf_clear(&out, 0);
    CHECK(refused(jet_encode_pub(&out, jet_span_of(name, 4091), none, none, none, LINE), JET_ERR_LINE));
    CHECK(refused(jet_encode_pub(&out, jet_span_of(name, 2100), jet_span_of(name, 2100), none, none, LINE),
                  JET_ERR_LINE));
    CHECK(refused(jet_encode_sub(&out, jet_span_of(name, 4091), none, 1, LINE), JET_ERR_LINE));
    CHECK(refused(jet_encode_pub(&out, S("a"), none, jet_span_of(name, SIZE_MAX / 2), none, LINE),
                  JET_ERR_SIZE));

    /* No memory. */
    for (int i = 0; i < 4; i++) {
        jet_buf_free(&out);
        fail_allocation(1);
        jet_status status = i == 0   ? jet_encode_pub(&out, S("a"), none, none, none, LINE)
                            : i == 1 ? jet_encode_sub(&out, S("a"), none, 1, LINE)
                            : i == 2 ? jet_encode_unsub(&out, 1, 0)
                                     : jet_encode_ping(&out);
        CHECK(refused(status, JET_ERR_MEMORY));
    }

    uint8_t digits[20];
    CHECK(jet_encode_u64(digits, 0) == 1 && digits[0] == '0');
    CHECK(jet_encode_u64(digits, UINT64_MAX) == 20 && memcmp(digits, "18446744073709551615", 20) == 0);
    jet_buf_free(&out);
}

void suite_subject(void) {
    CHECK(jet_subject_is_publishable(S("a.b.c")) && jet_subject_is_publishable(S("a..b")));
    CHECK(jet_subject_is_publishable(S("a*.b>.c")) && jet_subject_is_publishable(S("\xc3\xa9")));
    CHECK(!jet_subject_is_publishable(S("*")) && !jet_subject_is_publishable(S("a.*.b")));
    CHECK(!jet_subject_is_publishable(S("a.>")) && !jet_subject_is_publishable(S(">.a")));
    /* Wherever it stands among many, the same byte is refused. */
    for (size_t n = 1; n <= 40; n++) {
        for (size_t at = 0; at < n; at++) {
            char text[40];
            memset(text, 'a', n);
            jet_span s = fenced(jet_span_of((uint8_t *)text, n));
            uint8_t *byte = (uint8_t *)s.ptr + at;
            CHECK(jet_subject_is_publishable(s) && jet_subject_is_safe(s));
            for (int value = 0; value < 256; value++) {
                int bad = value <= ' ' || value == 0x7f;
                *byte = (uint8_t)value;
                CHECK(jet_subject_is_safe(s) == !bad);
                CHECK(jet_subject_is_publishable(s) ==
                      !(bad || (n == 1 && (value == '*' || value == '>'))));
            }
            *byte = '*';
            if (at + 1 < n) byte[1] = '.';
            if (at > 0) byte[-1] = '.';
            CHECK(!jet_subject_is_publishable(s));
            unfence(s);
        }
    }
    CHECK(jet_subject_is_subscribable(S("a.*.>")) && jet_subject_is_subscribable(S(">")));
    CHECK(!jet_subject_is_subscribable(S("a..b")) && !jet_subject_is_subscribable(S(".a")));
    CHECK(!jet_subject_is_subscribable(S("a.")) && !jet_subject_is_subscribable(S("a.>.b")));
    CHECK(!jet_subject_is_safe(S("")) && !jet_subject_is_safe(S("a b")));
    /* Every byte at every place, in words of eight and in what is left over. */
    uint8_t text[20];
    memset(text, 'a', sizeof text);
    for (size_t n = 1; n <= sizeof text; n++)
        for (size_t at = 0; at < n; at++) {
            for (int byte = 0; byte < 256; byte++) {
                text[at] = (uint8_t)byte;
                CHECK(jet_subject_is_safe(jet_span_of(text, n)) == (byte > ' ' && byte != 0x7f));
            }
            text[at] = 'a';
        }
}

void suite_buf(void) {
    jet_buf b;
    uint8_t text[10000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (uint8_t)(i * 7);
    jet_buf_init(&b);
    CHECK(jet_buf_len(&b) == 0 && jet_buf_append(&b, NULL, 0) == JET_OK && b.data == NULL);

    /* Bytes come out as they went in, whatever moves inside. */
    size_t in = 0, gone = 0;
    for (size_t step = 1; in + step <= sizeof text; step = step % 97 + 1) {
        CHECK(jet_buf_append(&b, text + in, step) == JET_OK);
        in += step;
        size_t take = (in - gone) * (step % 3) / 3;
        CHECK(memcmp(jet_buf_ptr(&b), text + gone, jet_buf_len(&b)) == 0);
        jet_buf_consume(&b, take);
        gone += take;
        CHECK(jet_buf_len(&b) == in - gone);
    }
    jet_buf_consume(&b, jet_buf_len(&b));
    CHECK(b.start == 0 && b.end == 0);

    size_t cap = b.cap;
    jet_buf_clear(&b, cap);
    CHECK(b.cap == cap);
    CHECK(jet_buf_append(&b, text, 100) == JET_OK);
    /* A refused growth leaves the content alone. */
    CHECK(jet_buf_reserve(&b, SIZE_MAX) == NULL && jet_buf_reserve(&b, SIZE_MAX / 2) == NULL);
    fail_allocation(1);
    CHECK(jet_buf_append(&b, text, sizeof text) == JET_ERR_MEMORY);
    CHECK(jet_buf_len(&b) == 100 && memcmp(jet_buf_ptr(&b), text, 100) == 0);
    jet_buf_clear(&b, 10);
    CHECK(b.data == NULL && b.cap == 0);
    jet_buf_free(&b);
    jet_buf_free(&b);
}
