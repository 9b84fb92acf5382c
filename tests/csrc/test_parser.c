/* jet_parser: frames, what it asks for when bytes are missing, what it refuses. */
#include "check.h"

static jet_parser parser;
static jet_frame f;
static size_t used;

/* Parse one frame from the start of a fresh stream, with the bytes fenced. */
static int parse(jet_span text) {
    static jet_span last;
    unfence(last);
    last = fenced(text);
    used = 0;
    jet_parser_init(&parser, 1000);
    return jet_parser_next(&parser, last, &f, &used);
}

static void frames(void) {
    CHECK(parse(S("MSG a.b 7 5\r\nhello\r\nPING\r\n")) == 1);
    CHECK(f.op == JET_OP_MSG && f.sid == 7 && used == 20 && f.status == 0);
    CHECK(same(f.subject, S("a.b")) && f.reply.len == 0);
    CHECK(f.header.len == 0 && same(f.payload, S("hello")));

    CHECK(parse(S("HMSG a 18446744073709551615 r 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\n")) == 1);
    CHECK(f.sid == UINT64_MAX && same(f.reply, S("r")) && same(f.payload, S("hi")));
    CHECK(same(f.header, S("NATS/1.0\r\nA: b\r\n\r\n")) && f.status == 0);

    CHECK(parse(S("HMSG a 1  16 16\r\nNATS/1.0 503\r\n\r\n\r\n")) == 1);
    CHECK(f.status == 503 && f.reply.len == 0 && f.payload.len == 0);

    CHECK(parse(S("PING\r\n")) == 1 && f.op == JET_OP_PING && used == 6);
    CHECK(parse(S("PONG\r\nPONG")) == 1 && f.op == JET_OP_PONG && used == 6);
    CHECK(parse(S("+OK\r\n")) == 1 && f.op == JET_OP_OK);
    CHECK(parse(S("-ERR 'x'\r\n")) == 1 && f.op == JET_OP_ERR && same(f.payload, S("'x'")));
    CHECK(parse(S("INFO {} \r\n")) == 1 && f.op == JET_OP_INFO && same(f.payload, S("{}")));
    CHECK(parse(S("INFO\r\n")) == 1 && f.payload.len == 0);
}

/* What a stream holds is a message, whatever a publisher put where a status stands. */
static void stored_is_no_status(void) {
    CHECK(parse(S("HMSG a 1 16 17\r\nNATS/1.0 409\r\n\r\nx\r\n")) == 1 && f.status == 0);
    CHECK(parse(S("HMSG a 1 $JS.ACK.S.C.1.1.1.1.1 16 16\r\nNATS/1.0 409\r\n\r\n\r\n")) == 1);
    CHECK(f.status == 0);
    CHECK(parse(S("HMSG a 1 $JS.ACK.x 29 29\r\nNATS/1.0 409 Consumer Deleted\r\n")) == 1);
    CHECK(f.status == 0);
    CHECK(parse(S("HMSG a 1 $JS.FC.S.C.x 16 16\r\nNATS/1.0 100\r\n\r\n\r\n")) == 1);
    CHECK(f.status == 100);
    CHECK(parse(S("HMSG a 1 $JS.ACK. 16 16\r\nNATS/1.0 409\r\n\r\n\r\n")) == 1);
    CHECK(f.status == 409);
#define READ                                                                                       \
    "Nats-Stream: S\r\nNats-Subject: a\r\nNats-Sequence: 1\r\nNats-Time-Stamp: 1970-01-01T00:00:00Z\r\n"
    CHECK(parse(S("HMSG a 1 106 106\r\nNATS/1.0 409\r\n" READ "\r\n\r\n")) == 1 && f.status == 0);
    CHECK(parse(S("HMSG a 1 102 102\r\nNATS/1.0 4" READ "\r\n\r\n")) == 1 && f.status == 0);
    CHECK(parse(S("HMSG a 1 110 110\r\nNATS/1.0 409\r\n" READ "A:\r\n\r\n\r\n")) == 1 && f.status == 409);
}

/* Whatever stands between the words, and whatever is in them: the line means the same. */
static void blanks(void) {
    static const char *lines[] = {
        "MSG a.b 7 r 5\r\n", "MSG\ta.b\t7\tr\t5\r\n", "MSG  a.b 7 \t r  5\r\n", "MSG a.b 7 r 5 \r\n",
    };
    char text[64];
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        size_t n = (size_t)snprintf(text, sizeof text, "%shello\r\n", lines[i]);
        CHECK(parse(jet_span_of((uint8_t *)text, n)) == 1 && used == n && f.sid == 7);
        CHECK(same(f.subject, S("a.b")) && same(f.reply, S("r")) && same(f.payload, S("hello")));
    }
    CHECK(parse(S("MSG \xC3\xA9\x01\x7F\xFF 7 5\r\nhello\r\n")) == 1);
    CHECK(same(f.subject, S("\xC3\xA9\x01\x7F\xFF")) && f.reply.len == 0);
    CHECK(parse(S("MSG a\rb 7 5\r\nhello\r\n")) == 1 && same(f.subject, S("a\rb")));
    CHECK(parse(S("MSG a 00000000000000000007 5\r\nhello\r\n")) == 1 && f.sid == 7);
    CHECK(parse(S("MSG a 000000000000000000007 5\r\nhello\r\n")) == JET_ERR_ARGS);
    CHECK(parse(S("MSG a 18446744073709551616 5\r\nhello\r\n")) == JET_ERR_ARGS);
    CHECK(parse(S("MSG a 7\n5\r\nhello\r\n")) == JET_ERR_LINE);
    CHECK(parse(S("MSG a 7 5\nhello\r\n\r\n")) == JET_ERR_LINE);
    CHECK(parse(S("MSG a 7 b c d e 5\r\nhello\r\n")) == JET_ERR_ARGS);
    CHECK(parse(S("HMSG a 7 5\r\nhello\r\n\r\n")) == JET_ERR_ARGS);
    CHECK(parse(S("MSG a 7x 5\r\nhello\r\n")) == JET_ERR_ARGS);
    CHECK(parse(S("MSG a 7 5x\r\nhello\r\n")) == JET_ERR_SIZE);
    CHECK(parse(S("HMSG a 7 x 5\r\nhello\r\n")) == JET_ERR_SIZE);
}

static void refusals(void) {
    CHECK(parse(S("")) == 0);
    CHECK(parse(S("MSGS a 1 0\r\n")) == JET_ERR_OP);
    CHECK(parse(S("\r\n")) == JET_ERR_OP);
    CHECK(parse(S("\n")) == JET_ERR_LINE);
    CHECK(parse(S("PING\n")) == JET_ERR_LINE);
    CHECK(parse(S("MSG a 1\r\n")) == JET_ERR_ARGS);
    CHECK(parse(S("MSG a 1 b c 0\r\n")) == JET_ERR_ARGS);
    CHECK(parse(S("MSG a x 0\r\n")) == JET_ERR_ARGS);
    CHECK(parse(S("MSG a 1 1001\r\n")) == JET_ERR_SIZE);
    CHECK(parse(S("MSG a 1 -1\r\n")) == JET_ERR_SIZE);
    CHECK(parse(S("MSG a 1 18446744073709551615\r\n")) == JET_ERR_SIZE);
    CHECK(parse(S("HMSG a 1 6 5\r\n")) == JET_ERR_SIZE);
    CHECK(parse(S("MSG a 1 1\r\nxyz")) == JET_ERR_CRLF);
    CHECK(parse(S("MSG a 1 1\r\nx\n\r")) == JET_ERR_CRLF);
}

static void asks_for_what_is_missing(void) {
    jet_span text = S("MSG a 1 5\r\nhello\r\n");
    CHECK(parse(jet_span_of(text.ptr, 4)) == 0 && parser.need == 5);
    CHECK(parse(jet_span_of(text.ptr, 11)) == 0 && parser.need == text.len);
    /* Below `need` it does not even look. */
    CHECK(jet_parser_next(&parser, jet_span_of(NULL, 12), &f, &used) == 0);
    CHECK(jet_parser_next(&parser, text, &f, &used) == 1 && used == text.len);
    /* After a frame it is as new. */
    CHECK(parser.need == 1 && parser.scanned == 0);
}

static void long_lines(void) {
    size_t n = JET_MAX_INFO + 10;
    uint8_t *line = malloc(n);
    memset(line, 'x', n);
    memcpy(line, "INFO ", 5);
    jet_parser_init(&parser, 1000);
    CHECK(jet_parser_next(&parser, jet_span_of(line, JET_MAX_INFO), &f, &used) == 0);
    CHECK(jet_parser_next(&parser, jet_span_of(line, n), &f, &used) == JET_ERR_LINE);
    memcpy(line, "-ERR ", 5);
    jet_parser_init(&parser, 1000);
    CHECK(jet_parser_next(&parser, jet_span_of(line, JET_MAX_LINE), &f, &used) == 0);
    CHECK(jet_parser_next(&parser, jet_span_of(line, JET_MAX_LINE + 1), &f, &used) == JET_ERR_LINE);
    memcpy(line + JET_MAX_LINE - 1, "\r\n", 2);
    jet_parser_init(&parser, 1000);
    CHECK(jet_parser_next(&parser, jet_span_of(line, n), &f, &used) == 1);
    CHECK(used == JET_MAX_LINE + 1);
    /* A line of words: as long as it may be, and one byte more. */
    for (size_t more = 0; more < 2; more++) {
        size_t len = JET_MAX_LINE - 1 + more;
        memset(line, 'x', n);
        memcpy(line, "MSG ", 4);
        memcpy(line + len - 4, " 1 0\r\n\r\n", 8);
        jet_parser_init(&parser, 1000);
        int got = jet_parser_next(&parser, jet_span_of(line, n), &f, &used);
        CHECK(more ? got == JET_ERR_LINE : got == 1 && used == len + 4 && f.subject.len == len - 8);
    }
    free(line);
}

void suite_parser(void) {
    frames();
    stored_is_no_status();
    blanks();
    refusals();
    asks_for_what_is_missing();
    long_lines();
    parse(S(""));
}

/* Every golden frame, at every length: silent until the last byte, then exactly one frame.
 * The file holds (32-bit length, bytes) records in the byte order of the machine. */
void suite_golden(const char *path) {
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    uint32_t n;
    int count = 0;
    while (fread(&n, sizeof n, 1, file) == 1) {
        uint8_t *data = malloc(n);
        CHECK(fread(data, 1, n, file) == n);
        jet_parser_init(&parser, 1 << 20);
        for (size_t len = 0; len < n; len++) {
            jet_span part = fenced(jet_span_of(data, len));
            CHECK(jet_parser_next(&parser, part, &f, &used) == 0);
            CHECK(parser.need > len && parser.need <= n);
            unfence(part);
        }
        CHECK(jet_parser_next(&parser, jet_span_of(data, n), &f, &used) == 1 && used == n);
        if (f.op == JET_OP_MSG) {
            jet_header_iter it;
            jet_span name, value;
            jet_header_begin(&it, f.header);
            while (jet_header_next(&it, &name, &value)) CHECK(name.len > 0);
            jet_jsack ack;
            int is_ack = f.reply.len > 8 && memcmp(f.reply.ptr, "$JS.ACK.", 8) == 0;
            CHECK((jet_jsack_parse(f.reply, &ack) == JET_OK) == is_ack);
        }
        free(data);
        count++;
    }
    CHECK(count > 100);
    fclose(file);
}
