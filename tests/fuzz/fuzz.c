/* Invariants, for any bytes whatever:
 *
 *   parser   the same frames, or the same refusal, in whatever pieces the bytes come; every span
 *            lies inside the input; nothing is consumed that was not there
 *   chain    what is appended comes out again
 *   columns  filling writes exactly what measuring announced, as valid UTF-8
 *   header   reading ends, names are not empty and have no colon; what is written reads back
 *   jsack    the fields lie inside the subject, in order
 *   puback   the stream name lies inside the text
 *   encode   what it accepts is one frame that parses back to the same parts
 *
 * and never a read or write outside of memory, no leak, no undefined behaviour (the sanitizers).
 *
 *   fuzz SEED COUNT GOLDEN [FIRST]     COUNT inputs from number FIRST on; 0: until killed
 *
 * Built with -DJET_LIBFUZZER and clang's -fsanitize=fuzzer it is a libFuzzer target instead. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jet.h"
#include "jet_scan.h"

#define CHECK(condition)                                                               \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition);    \
            abort();                                                                   \
        }                                                                              \
    } while (0)

static uint64_t next_random(uint64_t *state) { /* xorshift64 */
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static int inside(jet_span part, jet_span whole) {
    return part.len == 0 || (part.ptr >= whole.ptr && part.ptr + part.len <= whole.ptr + whole.len);
}

/* A copy of exact size on the heap: reading one byte too many is seen. */
static jet_span fenced(jet_span s) {
    uint8_t *p = malloc(s.len ? s.len : 1);
    if (s.len) memcpy(p, s.ptr, s.len);
    return jet_span_of(p, s.len);
}

static void unfence(jet_span s) { free((void *)s.ptr); }

/* -- single pieces ------------------------------------------------------------------------- */

static void check_utf8(jet_span s) {
    size_t n = jet_utf8_lossy_len(s);
    uint8_t *once = malloc(n + 1);
    CHECK(jet_utf8_lossy_copy(s, once) == n);
    /* Valid text is left as it is. */
    uint8_t *twice = malloc(n + 1);
    CHECK(jet_utf8_lossy_len(jet_span_of(once, n)) == n);
    CHECK(jet_utf8_lossy_copy(jet_span_of(once, n), twice) == n && memcmp(once, twice, n) == 0);
    free(once);
    free(twice);
}

static void check_header(jet_span block) {
    jet_header_iter it;
    jet_span name, value, found;
    jet_buf out;
    int status = jet_header_status(block);
    CHECK(status == 0 || (status >= 100 && status <= 999));
    CHECK(inside(jet_header_description(block), block));
    jet_buf_init(&out);
    jet_header_begin(&it, block);
    while (jet_header_next(&it, &name, &value)) {
        CHECK(inside(name, block) && inside(value, block));
        CHECK(name.len && memchr(name.ptr, ':', name.len) == NULL);
        CHECK(jet_header_find(block, name, &found));
        jet_buf_clear(&out, 4096);
        if (jet_header_append(&out, name, value) != JET_OK) {
            CHECK(jet_buf_len(&out) == 0);
            continue;
        }
        jet_header_iter again;
        jet_span n, v;
        jet_header_begin(&again, jet_span_of(jet_buf_ptr(&out), jet_buf_len(&out)));
        /* A name may look like the version line, which a block of ours always has first. */
        if (name.len >= 8 && memcmp(name.ptr, "NATS/1.0", 8) == 0) continue;
        CHECK(jet_header_next(&again, &n, &v) && jet_span_equal(n, name) && jet_span_equal(v, value));
        CHECK(!jet_header_next(&again, &n, &v) && again.malformed == 0);
    }
    jet_buf_free(&out);
}

static void check_jsack(jet_span reply) {
    jet_jsack a;
    if (jet_jsack_parse(reply, &a) != JET_OK) return;
    CHECK(inside(a.domain, reply) && inside(a.account_hash, reply));
    CHECK(inside(a.stream, reply) && inside(a.consumer, reply));
    CHECK(a.stream.len && a.consumer.len && a.stream.ptr + a.stream.len + 1 == a.consumer.ptr);
    CHECK(a.timestamp_ns >= 0);
}

static void check_puback(jet_span json) {
    jet_puback a;
    if (!jet_puback_parse(json, &a)) return;
    CHECK(a.seq > 0 && inside(a.stream, json) && (a.duplicate == 0 || a.duplicate == 1));
}

/* Cut the input in three and send it; then read what was sent as a subscriber would. */
static void check_encode(jet_span in, uint64_t shape) {
    size_t a = in.len ? shape % (in.len + 1) : 0;
    size_t b = a + (shape >> 16) % (in.len - a + 1);
    jet_span subject = jet_span_of(in.ptr, a), reply = jet_span_of(in.ptr + a, b - a);
    jet_span payload = jet_span_of(in.ptr + b, in.len - b), header = {NULL, 0};
    if (shape >> 63) header = payload;
    jet_buf out;
    jet_buf_init(&out);
    if (jet_encode_pub(&out, subject, reply, header, payload) != JET_OK) {
        CHECK(jet_buf_len(&out) == 0);
        jet_buf_free(&out);
        return;
    }
    /* "PUB subject ..." becomes "MSG subject 1 ...". */
    size_t verb = header.len ? 5 : 4;
    size_t n = jet_buf_len(&out) + 2;
    uint8_t *text = malloc(n);
    memcpy(text, jet_buf_ptr(&out), verb + subject.len);
    memcpy(text + verb - 4, "MSG", 3);
    memcpy(text + verb + subject.len, " 1", 2);
    memcpy(text + verb + subject.len + 2, jet_buf_ptr(&out) + verb + subject.len,
           jet_buf_len(&out) - verb - subject.len);
    jet_parser p;
    jet_frame f;
    size_t used;
    jet_parser_init(&p, SIZE_MAX / 4);
    CHECK(jet_parser_next(&p, jet_span_of(text, n), &f, &used) == 1 && used == n);
    CHECK(f.op == JET_OP_MSG && f.sid == 1 && jet_span_equal(f.subject, subject));
    CHECK(jet_span_equal(f.reply, reply) && jet_span_equal(f.header, header));
    CHECK(jet_span_equal(f.payload, payload));
    free(text);
    jet_buf_free(&out);
}

/* -- columns ------------------------------------------------------------------------------- */

static void *columns[19];
static size_t made;

/* A buffer of exactly n values; calloc(0) might be NULL, which means "not wanted". */
static void *column(size_t n, size_t size) { return columns[made++] = calloc(n ? n : 1, size); }

static void check_columns(const jet_chain *c, int text) {
    jet_columns_size s;
    jet_columns out;
    memset(&s, 0, sizeof s);
    memset(&out, 0, sizeof out);
    made = 0;
    jet_columns_measure(c, 1, text, &s);
    CHECK(s.rows <= c->count && s.header_rows <= s.rows && s.metadata_rows <= s.rows);
    CHECK(s.header_keys <= s.header_values);
    out.subject_offsets = column(s.rows + 1, 4);
    out.subject = column(s.subject_bytes, 1);
    out.data_offsets = column(s.rows + 1, 4);
    out.data = column(s.data_bytes, 1);
    out.reply_offsets = column(s.rows + 1, 4);
    out.reply = column(s.reply_bytes, 1);
    out.header_valid = column((s.rows + 7) / 8, 1);
    out.header_offsets = column(s.rows + 1, 4);
    out.key_offsets = column(s.header_keys + 1, 4);
    out.key = column(s.key_bytes, 1);
    out.list_offsets = column(s.header_keys + 1, 4);
    out.value_offsets = column(s.header_values + 1, 4);
    out.value = column(s.value_bytes, 1);
    out.metadata_valid = column((s.rows + 7) / 8, 1);
    out.stream_seq = column(s.rows, 8);
    out.consumer_seq = column(s.rows, 8);
    out.num_delivered = column(s.rows, 8);
    out.num_pending = column(s.rows, 8);
    out.timestamp_ns = column(s.rows, 8);
    jet_columns_fill(c, text, &out);
    CHECK((size_t)out.subject_offsets[s.rows] == s.subject_bytes);
    CHECK((size_t)out.data_offsets[s.rows] == s.data_bytes);
    CHECK((size_t)out.reply_offsets[s.rows] == s.reply_bytes);
    CHECK((size_t)out.header_offsets[s.rows] == s.header_keys);
    CHECK((size_t)out.key_offsets[s.header_keys] == s.key_bytes);
    CHECK((size_t)out.list_offsets[s.header_keys] == s.header_values);
    CHECK((size_t)out.value_offsets[s.header_values] == s.value_bytes);
    CHECK(jet_utf8_lossy_len(jet_span_of(out.key, s.key_bytes)) == s.key_bytes);
    CHECK(jet_utf8_lossy_len(jet_span_of(out.subject, s.subject_bytes)) == s.subject_bytes);
    if (text) CHECK(jet_utf8_lossy_len(jet_span_of(out.value, s.value_bytes)) == s.value_bytes);
    for (size_t i = 0; i < made; i++) free(columns[i]);
}

/* -- the parser ---------------------------------------------------------------------------- */

#define MAX_FRAMES 256

typedef struct trace {
    struct {
        jet_op op;
        uint64_t sid;
        size_t end; /* where the frame ends in the input */
    } frame[MAX_FRAMES];
    size_t count;
    int result; /* the refusal, or 0: more bytes wanted */
} trace;

/* Parse as a reader does: what is not consumed stays in front of the next piece. */
static void parse(jet_span in, uint64_t pieces, trace *t, jet_chain *c) {
    jet_parser p;
    size_t start = 0, have = 0;
    memset(t, 0, sizeof *t);
    jet_parser_init(&p, 1 << 16);
    while (t->count < MAX_FRAMES) {
        jet_frame f;
        size_t used = 0;
        jet_span part = fenced(jet_span_of(in.ptr + start, have - start));
        int got = jet_parser_next(&p, part, &f, &used);
        if (got < 0) {
            t->result = got;
            unfence(part);
            return;
        }
        if (got == 0) {
            CHECK(have == start || p.need > have - start);
            unfence(part);
            if (have == in.len) return;
            have = pieces ? have + 1 + next_random(&pieces) % 40 : in.len;
            if (have > in.len) have = in.len;
            continue;
        }
        CHECK(used > 0 && used <= part.len);
        CHECK(inside(f.subject, part) && inside(f.reply, part));
        CHECK(inside(f.header, part) && inside(f.payload, part));
        start += used;
        t->frame[t->count].op = f.op;
        t->frame[t->count].sid = f.sid;
        t->frame[t->count++].end = start;
        if (c && f.op == JET_OP_MSG) {
            jet_record r = {f.subject, f.reply, f.header, f.payload, f.status};
            CHECK(jet_chain_append(c, &r) == JET_OK);
            check_header(f.header);
            check_jsack(f.reply);
            check_puback(f.payload);
        }
        unfence(part);
    }
}

static void check_parser(jet_span in, uint64_t pieces) {
    static trace whole, cut;
    jet_chain c;
    jet_chain_init(&c);
    parse(in, 0, &whole, &c);
    parse(in, pieces | 1, &cut, NULL);
    CHECK(whole.count == cut.count && whole.result == cut.result);
    for (size_t i = 0; i < whole.count; i++) {
        CHECK(whole.frame[i].op == cut.frame[i].op && whole.frame[i].sid == cut.frame[i].sid);
        CHECK(whole.frame[i].end == cut.frame[i].end);
    }
    check_columns(&c, 0);
    check_columns(&c, 1);
    jet_record r;
    size_t bytes = c.bytes;
    while (jet_chain_take(&c, &r)) bytes -= jet_record_bytes(&r);
    CHECK(bytes == 0 && c.count == 0 && c.bytes == 0);
    jet_chain_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint64_t shape = 0x9E3779B97F4A7C15ull;
    for (size_t i = 0; i < size; i++) shape = (shape ^ data[i]) * 0x100000001B3ull;
    jet_span in = fenced(jet_span_of(data, size));
    check_parser(in, shape);
    check_header(in);
    check_jsack(in);
    check_puback(in);
    check_utf8(in);
    check_encode(in, shape);
    unfence(in);
    return 0;
}

/* -- a driver for plain compilers ---------------------------------------------------------- */

#ifndef JET_LIBFUZZER

#include <sanitizer/common_interface_defs.h>
#include <signal.h>

#define MAX_GOLDEN 512
#define MAX_INPUT 4096

static jet_span golden[MAX_GOLDEN];
static size_t golden_count;
static uint64_t seed, number;

/* Words that get past the first checks more often than random bytes do. */
static const char *const words[] = {
    "MSG ", "HMSG ", "PING\r\n", "PONG\r\n", "INFO ", "-ERR ", "+OK\r\n", "\r\n", "NATS/1.0",
    "NATS/1.0 503", ": ", "A", " ", "  ", "\t", "0", "1", "12", "-1", "18446744073709551615",
    "18446744073709551616", "65536", "$JS.ACK.", "$JS.ACK.S.C.1.2.3.4.5", ".", "_", "{", "}", "\"",
    "\"seq\":", "\"stream\":", "\"duplicate\":", "true", ",", "\xEF\xBF\xBD", "\xFF", "\xE2\x82",
};

static void report(void) {
    fprintf(stderr, "again: seed %llu input %llu\n", (unsigned long long)seed,
            (unsigned long long)number);
}

static void on_abort(int signal_number) {
    (void)signal_number;
    report();
}

static void load(const char *path) {
    FILE *file = fopen(path, "rb");
    uint32_t n;
    CHECK(file != NULL);
    while (golden_count < MAX_GOLDEN && fread(&n, sizeof n, 1, file) == 1) {
        uint8_t *data = malloc(n);
        CHECK(fread(data, 1, n, file) == n);
        golden[golden_count++] = jet_span_of(data, n);
    }
    fclose(file);
    CHECK(golden_count > 100);
}

static size_t add(uint8_t *to, size_t len, const void *bytes, size_t n) {
    if (n > MAX_INPUT - len) n = MAX_INPUT - len;
    memcpy(to + len, bytes, n);
    return len + n;
}

/* One input: golden frames, words and random bytes in a row, then a few changes. */
static size_t make(uint8_t *to, uint64_t *random) {
    size_t len = 0;
    for (size_t parts = next_random(random) % 6; parts > 0; parts--) {
        uint64_t dice = next_random(random) % 8;
        if (dice < 4) {
            jet_span frame = golden[next_random(random) % golden_count];
            len = add(to, len, frame.ptr, frame.len);
        } else if (dice < 7) {
            for (size_t n = next_random(random) % 12; n > 0; n--) {
                const char *word = words[next_random(random) % (sizeof words / sizeof *words)];
                len = add(to, len, word, strlen(word));
            }
        } else {
            for (size_t n = next_random(random) % 30; n > 0; n--) {
                uint8_t byte = (uint8_t)next_random(random);
                len = add(to, len, &byte, 1);
            }
        }
    }
    for (size_t changes = next_random(random) % 4; len && changes > 0; changes--) {
        size_t at = next_random(random) % len;
        switch (next_random(random) % 4) {
        case 0: to[at] = (uint8_t)next_random(random); break;
        case 1: to[at] ^= (uint8_t)(1u << next_random(random) % 8); break;
        case 2: memmove(to + at, to + at + 1, len-- - at - 1); break;
        default: len = at; break;
        }
    }
    return len;
}

int main(int argc, char **argv) {
    static uint8_t input[MAX_INPUT];
    if (argc < 4) {
        fprintf(stderr, "usage: fuzz SEED COUNT GOLDEN [FIRST]\n");
        return 2;
    }
    seed = strtoull(argv[1], NULL, 10);
    uint64_t count = strtoull(argv[2], NULL, 10);
    number = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    load(argv[3]);
    __sanitizer_set_death_callback(report);
    signal(SIGABRT, on_abort);
    for (uint64_t last = number + count; count == 0 || number < last; number++) {
        /* Each input depends on its own number only, so that any one can be made again. */
        uint64_t random = (seed * 0x9E3779B97F4A7C15ull) ^ ((number + 1) * 0xD1B54A32D192ED03ull);
        if (random == 0) random = 1;
        LLVMFuzzerTestOneInput(input, make(input, &random));
    }
    for (size_t i = 0; i < golden_count; i++) unfence(golden[i]);
    return 0;
}

#endif
