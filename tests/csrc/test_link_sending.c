/* csrc/link: from the outbound buffer to a socket. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "link.h"

/* What a large frame needed goes back when nothing was put in between two PINGs. */
static void check_quiet(void) {
    static uint8_t payload[200000], sink[1 << 16];
    link_outbound o;
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    link_outbound_init(&o, 1 << 20, 0);
    CHECK(link_outbound_attach(&o, pair[0], S("first\r\n"), 1 << 20, NULL, NULL, 0) >= 0);
    link_put p = {.kind = LINK_PUB, .subject = S("s"), .payload = jet_span_of(payload, 200000)};
    for (int i = 0; i < 2; i++) {
        CHECK(link_outbound_put(&o, &p, 1) == LINK_OK);
        while (link_outbound_pending(&o) || jet_buf_len(&o.sending)) {
            CHECK(link_outbound_begin_send(&o));
            link_outbound_send(&o);
            CHECK(recv(pair[1], sink, sizeof sink, MSG_DONTWAIT) > 0);
        }
        CHECK(o.pending.cap + o.sending.cap >= 200000);
        link_outbound_ping(&o, 1);
        CHECK(o.pending.cap + o.sending.cap >= 200000); /* as much may follow */
    }
    CHECK(link_outbound_begin_send(&o));
    link_outbound_send(&o);
    CHECK(link_outbound_ping(&o, 1) == 3);
    CHECK(o.pending.cap <= 65536 && o.sending.cap <= 65536);
    close(pair[0]), close(pair[1]);
    link_outbound_free(&o);
}

/* What a sender takes, one piece after the other, until nothing is left. */
static size_t received(link_outbound *o, int from, uint8_t *to, size_t room) {
    size_t n = 0;
    while (link_outbound_pending(o) || jet_buf_len(&o->sending)) {
        CHECK(link_outbound_begin_send(o));
        link_outbound_send(o);
        ssize_t got;
        while ((got = recv(from, to + n, room - n, MSG_DONTWAIT)) > 0) n += (size_t)got;
    }
    return n;
}

static link_put large_frame(uint8_t *data, const char *line, size_t payload) {
    size_t n = strlen(line);
    memcpy(data, line, n);
    memset(data + n, 'x', payload);
    memcpy(data + n + payload, "\r\n", 2);
    return (link_put){.kind = LINK_FRAMES, .payload = jet_span_of(data, n + payload + 2), .messages = 1};
}

/* Large frames wait where they are: nothing of them is moved when more comes, and a lent one stays its
 * maker's too. They leave in the order in which they were put in. */
static void check_pieces(void) {
    enum { LARGE = 100000, FRAME = 19 + LARGE + 2, ROOM = 4 * FRAME + 64 };
    static uint8_t payload[LARGE], sink[ROOM], seen[ROOM];
    link_outbound o;
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    link_outbound_init(&o, 1 << 20, 1 << 20);
    CHECK(link_outbound_attach(&o, pair[0], S(""), 1 << 20, NULL, NULL, 0) == 0);
    link_put small = {.kind = LINK_PUB, .subject = S("s"), .payload = S("1"), .messages = 1};
    link_put large = {.kind = LINK_PUB, .subject = S("l"), .payload = jet_span_of(payload, LARGE)};
    CHECK(link_outbound_put(&o, &large, 1) == LINK_OK);
    uint8_t *first = o.pending.data;
    CHECK(link_outbound_put(&o, &large, 1) == LINK_OK);
    CHECK(link_outbound_put(&o, &large, 1) == LINK_OK);
    CHECK(o.aside.first && o.aside.first->bytes.data == first); /* not moved */
    uint8_t *data = malloc(FRAME);
    link_share *share = link_share_new(data);
    CHECK(data && share);
    link_put lent = large_frame(data, "PUB k _W.1 100000\r\n", LARGE);
    lent.share = share;
    CHECK(link_outbound_put(&o, &small, 1) == LINK_OK);
    CHECK(link_outbound_offer(&o, &lent) == LINK_OK && o.aside.last->bytes.data == data);
    CHECK(link_outbound_put(&o, &small, 1) == LINK_OK);
    CHECK(link_outbound_peek(&o, seen, sizeof seen) == link_outbound_pending(&o));
    /* What is lent already is copied; what is withdrawn is its maker's again, untouched. */
    CHECK(link_outbound_offer(&o, &lent) == LINK_OK && o.aside.last->bytes.data == data);
    size_t all = link_outbound_pending(&o);
    link_outbound_detach(&o);
    link_outbound_retract(&o, S("_W."));
    CHECK(link_outbound_pending(&o) == all - 2 * lent.payload.len);
    CHECK(link_outbound_offer(&o, &lent) == LINK_OK && o.aside.last->bytes.data == data);
    CHECK(memcmp(data, lent.payload.ptr, lent.payload.len) == 0);
    CHECK(link_outbound_attach(&o, pair[0], S(""), LARGE - 1, NULL, NULL, 0) == 4);
    CHECK(link_outbound_offer(&o, &lent) == LINK_OK);
    CHECK(link_outbound_put(&o, &small, 1) == LINK_OK);
    size_t n = link_outbound_peek(&o, seen, sizeof seen);
    CHECK(received(&o, pair[1], sink, sizeof sink) == n && memcmp(sink, seen, n) == 0);
    CHECK(link_share_end(share)); /* sent: the memory is the maker's alone */
    share = link_share_new(data);
    lent.share = share;
    CHECK(link_outbound_offer(&o, &lent) == LINK_OK);
    CHECK(!link_share_end(share)); /* the sender frees it */
    CHECK(received(&o, pair[1], sink, sizeof sink) == lent.payload.len);
    CHECK(memcmp(sink, "PUB k _W.1 100000\r\nxx", 21) == 0);
    close(pair[0]), close(pair[1]);
    link_outbound_free(&o);
}

static link_filtered encode_as_it_is(void *context, const uint8_t *data, size_t n, jet_buf *out) {
    (void)context;
    return jet_buf_append(out, data, n) == JET_OK ? LINK_FILTER_DONE : LINK_FILTER_BROKEN;
}

/* A filter is done with a lent frame before all of it has left: it goes back to its maker at once. */
static void check_lent_to_a_filter(void) {
    enum { LARGE = 100000, FRAME = 19 + LARGE + 2 };
    static uint8_t full[4096];
    link_outbound o;
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    link_outbound_init(&o, 1 << 20, 1 << 20);
    CHECK(link_outbound_attach(&o, pair[0], S(""), 1 << 20, encode_as_it_is, NULL, 0) == 0);
    while (send(pair[0], full, sizeof full, MSG_DONTWAIT) > 0) {}
    uint8_t *data = malloc(FRAME);
    link_share *share = link_share_new(data);
    CHECK(data && share);
    link_put lent = large_frame(data, "PUB k _W.1 100000\r\n", LARGE);
    lent.share = share;
    CHECK(link_outbound_offer(&o, &lent) == LINK_OK && link_outbound_begin_send(&o));
    link_outbound_send(&o);
    CHECK(jet_buf_len(&o.sending) && jet_buf_len(&o.plain) == 0);
    CHECK(link_outbound_ping(&o, 0) == 1 && link_outbound_ping(&o, 0) == 2); /* memory is given back */
    CHECK(memcmp(data, "PUB k _W.1 100000\r\nxx", 21) == 0 && link_share_end(share));
    free(data);
    close(pair[0]), close(pair[1]);
    link_outbound_free(&o);
}

/* Encodes nothing; meanwhile another thread puts something in. */
static link_filtered add_one(void *context, const uint8_t *data, size_t n, jet_buf *out) {
    link_put more = {.kind = LINK_PUB, .subject = S("b"), .payload = S("y"), .messages = 1};
    if (n) CHECK(link_outbound_put(context, &more, 0) == LINK_OK);
    return jet_buf_append(out, data, n) == JET_OK ? LINK_FILTER_DONE : LINK_FILTER_BROKEN;
}

/* Meanwhile another thread puts something in, and the last frame leaves. */
static link_filtered end(void *context, const uint8_t *data, size_t n, jet_buf *out) {
    add_one(context, data, n, out);
    return LINK_FILTER_LAST;
}

static link_filtered fail(void *context, const uint8_t *data, size_t n, jet_buf *out) {
    (void)context, (void)data, (void)n, (void)out;
    return LINK_FILTER_BROKEN;
}

static void arrived(int fd, const char *want) {
    char got[300] = {0};
    size_t n = strlen(want);
    CHECK(read(fd, got, sizeof got) == (ssize_t)n && memcmp(got, want, n) == 0);
}

static link_filtered count_sends(void *context, const uint8_t *data, size_t n, jet_buf *out) {
    if (n) link_add(context, 1);
    return encode_as_it_is(context, data, n, out);
}

static void *pump(void *outbound) {
    link_outbound_pump(outbound);
    return NULL;
}

/* Acknowledgements that follow one another leave together, LINK_HOLD after the first at the latest;
 * what else is sent takes them along. */
static void check_held(void) {
    static uint8_t sink[1 << 16];
    link_outbound o;
    pthread_t writer;
    uint64_t sends = 0;
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    link_outbound_init(&o, 1 << 20, 1 << 20);
    CHECK(link_outbound_attach(&o, pair[0], S(""), 1 << 20, count_sends, &sends, 0) == 0);
    link_put ack = {.kind = LINK_REPLY, .subject = S("a"), .payload = S("+ACK"), .messages = 1,
                    .resend = 1, .wake = 1};
    link_put message = {.kind = LINK_PUB, .subject = S("b"), .messages = 1, .wake = 1};
    CHECK(!link_outbound_holds(&o) && link_outbound_put(&o, &ack, 0) == LINK_OK);
    CHECK(link_outbound_holds(&o) && !o.hurried);
    o.writer_only = 1; /* no other thread can send */
    CHECK(!link_outbound_holds(&o));
    o.writer_only = 0;
    CHECK(link_outbound_begin_send(&o) == 1);
    link_outbound_send(&o);
    CHECK(!link_outbound_holds(&o) && sends == 1);
    CHECK(link_outbound_put(&o, &ack, 0) == LINK_OK && link_outbound_put(&o, &message, 0) == LINK_OK);
    CHECK(o.hurried);
    CHECK(pthread_create(&writer, NULL, pump, &o) == 0);
    while (link_outbound_pending(&o)) usleep(100);
    double began = link_now(), took;
    for (int i = 0; i < 500; i++) {
        CHECK(link_outbound_put(&o, &ack, 1) == LINK_OK);
        usleep(50);
        while (recv(pair[1], sink, sizeof sink, MSG_DONTWAIT) > 0) continue;
    }
    while (link_outbound_pending(&o)) usleep(100);
    took = link_now() - began;
    CHECK(link_load(&sends) <= 4 + (uint64_t)(took / LINK_HOLD));
    link_outbound_close(&o);
    pthread_join(writer, NULL);
    close(pair[0]), close(pair[1]);
    link_outbound_free(&o);
}

void suite_send(void) {
    check_held();
    check_quiet();
    check_pieces();
    check_lent_to_a_filter();
    link_outbound o;
    int pair[2];
    static char big[14600];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    link_outbound_init(&o, 1 << 20, 1 << 20);
    link_put p = {.kind = LINK_PUB, .subject = S("a"), .payload = S("x"), .messages = 1};
    link_put large = {.kind = LINK_PUB, .subject = S("a"), .messages = 1};
    link_put ack = {.kind = LINK_REPLY, .subject = S("r"), .payload = S("k"), .resend = 1};
    large.payload = jet_span_of((const uint8_t *)big, sizeof big);
    CHECK(link_outbound_put(&o, &p, 0) == LINK_OK && link_outbound_put(&o, &large, 0) == LINK_OK);
    CHECK(link_outbound_line(&o, S("SUB a 1\r\n")) == LINK_OK); /* means nothing without a link */
    /* A link begins with the subscriptions; what the server would refuse is dropped. */
    CHECK(link_outbound_attach(&o, pair[0], S("SUB z 1\r\n"), 1000, NULL, NULL, 0) == 1);
    CHECK(link_outbound_link(&o) == 2);
    CHECK(link_outbound_begin_send(&o) == 1);
    CHECK(link_outbound_begin_send(&o) == 0); /* a thread sends already */
    link_outbound_send(&o);
    arrived(pair[1], "SUB z 1\r\nPUB a 1\r\nx\r\n");
    /* Much is sent without the interpreter's lock; what the socket does not take is kept. */
    CHECK(link_outbound_put(&o, &ack, 0) == LINK_OK);
    for (int i = 0; i < 9; i++) CHECK(link_outbound_put(&o, &large, 0) == LINK_OK);
    CHECK(link_outbound_begin_send(&o) == 2);
    link_outbound_send(&o);
    for (size_t left = 10 + 9 * (10 + sizeof big + 2 + 1); left > 0;) {
        char piece[4096];
        ssize_t n = read(pair[1], piece, left < sizeof piece ? left : sizeof piece);
        CHECK(n > 0);
        left -= (size_t)n < left ? (size_t)n : left;
        if (left <= 9) break;
    }
    /* On the next link what is kept comes again, what was half sent does not. */
    link_outbound_detach(&o);
    link_outbound_forget(&o);
    CHECK(link_outbound_link(&o) == 0);
    close(pair[0]), close(pair[1]);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(link_outbound_attach(&o, pair[0], S(""), 1000, NULL, NULL, 0) == 0 && o.links == 3);
    CHECK(link_outbound_begin_send(&o) == 1);
    link_outbound_send(&o);
    arrived(pair[1], "PUB r 1\r\nk\r\n");
    /* A PONG shows what has arrived, and no caller is told of that one. */
    CHECK(link_outbound_ping(&o, 1) == 1 && link_outbound_ask(&o) && o.pings == 2);
    CHECK(link_outbound_ask(&o) && o.pings == 2); /* one such PING at a time */
    CHECK(link_outbound_begin_send(&o) == 1);
    link_outbound_send(&o);
    arrived(pair[1], "PING\r\nPING\r\n");
    CHECK(link_outbound_ponged(&o) && link_outbound_kept(&o) > 0);
    CHECK(!link_outbound_ponged(&o) && link_outbound_kept(&o) == 0 && o.pongs == 2);
    CHECK(link_outbound_ponged(&o) && o.pongs == 2); /* one that was not asked for */
    CHECK(!link_outbound_ask(&o));
    /* A thread that sends leaves what is put in meanwhile to the writer: others cannot keep it. */
    CHECK(link_outbound_put(&o, &p, 0) == LINK_OK && link_turn_try(&o.send_turn));
    o.encode = add_one, o.context = &o;
    link_outbound_send(&o);
    o.encode = NULL;
    arrived(pair[1], "PUB a 1\r\nx\r\n");
    CHECK(link_outbound_pending(&o) == 12 && o.nudged);
    /* Little is pending, but much of before has not left: that is much. */
    jet_buf_append(&o.sending, big, sizeof big);
    for (int i = 0; i < 9; i++) jet_buf_append(&o.sending, big, sizeof big);
    CHECK(link_outbound_begin_send(&o) == 2);
    jet_buf_clear(&o.sending, 0);
    link_outbound_send(&o);
    arrived(pair[1], "PUB b 1\r\ny\r\n");
    /* Messages of a window are taken back by their reply. */
    link_put mine = {.kind = LINK_PUB, .subject = S("a"), .reply = S("_I.w.1"), .messages = 1};
    CHECK(link_outbound_put(&o, &mine, 0) == LINK_OK && link_outbound_put(&o, &p, 0) == LINK_OK);
    link_outbound_retract(&o, S("_I.w."));
    CHECK(link_outbound_pending(&o) == 30 && link_outbound_link_to_leave_on(&o) == 3);
    link_outbound_detach(&o);
    /* What is put in without a link is for the next one, and stays. */
    mine.link = 3;
    CHECK(link_outbound_put(&o, &mine, 0) == LINK_GONE && link_outbound_link_to_leave_on(&o) == 4);
    mine.link = 4;
    CHECK(link_outbound_put(&o, &mine, 0) == LINK_OK && link_outbound_ping(&o, 1) == 0);
    link_outbound_retract(&o, S("_I.w."));
    link_outbound_retract(&o, S("_I.w."));
    CHECK(link_outbound_pending(&o) == 30);
    /* A line that comes while the subscriptions are gathered leaves behind them, in its order. */
    CHECK(link_outbound_line(&o, S("SUB a 1\r\n")) == LINK_OK);
    link_outbound_expect(&o);
    CHECK(link_outbound_line(&o, S("SUB b 2\r\n")) == LINK_OK);
    CHECK(link_outbound_attach(&o, pair[0], S("SUB z 3\r\n"), 1000, NULL, NULL, 0) == 0 && o.links == 4);
    CHECK(link_outbound_put(&o, &mine, 0) == LINK_OK && link_outbound_ping(&o, 1) == 1);
    /* The writer ends at the close; a dead peer does not end it. */
    CHECK(link_outbound_begin_send(&o) == 1);
    link_outbound_send(&o);
    arrived(pair[1], "SUB z 3\r\nPUB a 1\r\nx\r\nPUB a _I.w.1 0\r\n\r\nSUB b 2\r\n"
                     "PUB a _I.w.1 0\r\n\r\nPING\r\n");
    /* Behind the last frame nothing is sent, by any thread, and what waits is kept. */
    CHECK(link_outbound_put(&o, &p, 0) == LINK_OK && link_turn_try(&o.send_turn));
    o.encode = end, o.context = &o;
    link_outbound_send(&o);
    arrived(pair[1], "PUB a 1\r\nx\r\n");
    CHECK(link_outbound_pending(&o) == 12 && o.fd < 0);
    /* What a thread could not encode is a gap: nothing is sent behind it. */
    o.fd = pair[0], o.encode = fail, o.last = 0;
    CHECK(link_turn_try(&o.send_turn));
    link_outbound_send(&o);
    CHECK(o.fd < 0 && jet_buf_len(&o.plain) == 0);
    link_outbound_close(&o);
    link_outbound_pump(&o);
    close(pair[0]), close(pair[1]);
    link_outbound_free(&o);
}
