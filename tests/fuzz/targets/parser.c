/* Invariants of jet_parser, for any bytes from a server:
 *
 *   - the same frames, or the same refusal, in whatever pieces the bytes come;
 *   - every span lies inside the input, and nothing is consumed that was not there;
 *   - when bytes are missing it asks for at least one more than there are;
 *   - a frame names only what its line says: sizes add up, a status has three digits;
 *   - tabs mean the same as blanks, although lines with single blanks are split in another way.
 */
#include "fuzz.h"

#define MAX_FRAMES 64
#define MAX_SIZE 4096

typedef struct trace {
    struct {
        jet_op op;
        int status;
        uint64_t sid;
        size_t subject, reply, header, payload, end;
    } frame[MAX_FRAMES];
    size_t count;
    int result; /* the refusal, or 0: more bytes wanted */
} trace;

/* Parse as a reader does: what is not consumed stays in front of the next piece. */
static void parse(jet_span in, uint64_t pieces, trace *t) {
    jet_parser p;
    size_t start = 0, have = pieces ? next_random(&pieces) % (in.len + 1) : in.len;
    memset(t, 0, sizeof *t);
    jet_parser_init(&p, MAX_SIZE);
    while (t->count < MAX_FRAMES) {
        jet_frame f;
        size_t used = 0;
        jet_span part = fenced(jet_span_of(in.ptr + start, have - start));
        int got = jet_parser_next(&p, part, &f, &used);
        if (got < 0) t->result = got;
        if (got == 0) CHECK(have == start || p.need > have - start);
        if (got == 1) {
            CHECK(used > 0 && used <= part.len);
            CHECK(inside(f.subject, part) && inside(f.reply, part));
            CHECK(inside(f.header, part) && inside(f.payload, part));
            CHECK(f.header.len + f.payload.len <= MAX_SIZE || f.op != JET_OP_MSG);
            CHECK(f.status == 0 || (f.status >= 100 && f.status <= 999 && f.header.len >= 12));
            CHECK((f.op == JET_OP_MSG) == (f.subject.len > 0));
            start += used;
            t->frame[t->count].op = f.op;
            t->frame[t->count].status = f.status;
            t->frame[t->count].sid = f.sid;
            t->frame[t->count].subject = f.subject.len;
            t->frame[t->count].reply = f.reply.len;
            t->frame[t->count].header = f.header.len;
            t->frame[t->count].payload = f.payload.len;
            t->frame[t->count++].end = start;
        }
        unfence(part);
        if (got < 0 || (got == 0 && have == in.len)) return;
        if (got == 0) {
            have += 1 + next_random(&pieces) % (40 + in.len / 50);
            if (have > in.len) have = in.len;
        }
    }
}

static void check_tabs(jet_span in) {
    jet_parser p, q;
    jet_frame f, g;
    size_t used = 0, again = 0;
    jet_span part = fenced(in), tabs = fenced(in);
    for (uint8_t *c = (uint8_t *)tabs.ptr; c < tabs.ptr + tabs.len && *c != '\n'; c++)
        if (*c == ' ') *c = '\t';
    jet_parser_init(&p, MAX_SIZE);
    jet_parser_init(&q, MAX_SIZE);
    int got = jet_parser_next(&p, part, &f, &used);
    CHECK(jet_parser_next(&q, tabs, &g, &again) == got && p.need == q.need && used == again);
    if (got == 1) {
        CHECK(f.op == g.op && f.status == g.status && (f.op != JET_OP_MSG || f.sid == g.sid));
        CHECK(jet_span_equal(f.subject, g.subject) && jet_span_equal(f.reply, g.reply));
        CHECK(jet_span_equal(f.header, g.header) && f.payload.len == g.payload.len);
        CHECK(f.op != JET_OP_MSG || jet_span_equal(f.payload, g.payload));
    }
    unfence(part);
    unfence(tabs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static trace whole, pieces;
    jet_span in = jet_span_of(data, size);
    check_tabs(in);
    parse(in, 0, &whole);
    parse(in, hash_of(in), &pieces);
    CHECK(whole.count == pieces.count && whole.result == pieces.result);
    CHECK(memcmp(whole.frame, pieces.frame, sizeof whole.frame) == 0);
    return 0;
}
