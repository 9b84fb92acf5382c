/* Nine threads on one connection's queues, under the thread sanitizer.
 *
 *   threads ROUNDS [LEFT_OUT]
 *
 * One reader (messages for three mailboxes, answers, PINGs) who lends its seat to a caller, three
 * consumers of which two share a mailbox, two publishers, one writer, and one that makes and forgets subscriptions and requests,
 * pokes, discards and flushes. LEFT_OUT (route, box, take, out, send, seat) leaves that lock out: the
 * sanitizer must notice. At the end everything adds up. */
#include "protocol.h"

enum { BOXES = 3 };

static inbound in;
static outbound out;
static box boxes[BOXES];
static uint64_t sids[BOXES];
static size_t rounds, discarded, lent;
static atomic_uint_fast64_t token; /* of the request that waits for an answer */
static atomic_size_t asked_pings;
static atomic_int ended;

static size_t put_text(uint8_t *to, size_t n, const char *text) {
    memcpy(to + n, text, strlen(text));
    return n + strlen(text);
}

/* "MSG <subject> <sid> <n>\r\n<number>\r\n" */
static size_t put_message(uint8_t *to, size_t n, const char *subject, uint64_t sid, uint64_t number) {
    uint8_t digits[20];
    size_t length = jet_encode_u64(digits, number);
    n = put_text(to, n, "MSG ");
    n = put_text(to, n, subject);
    to[n++] = ' ';
    n += jet_encode_u64(to + n, sid);
    to[n++] = ' ';
    n += jet_encode_u64(to + n, length);
    n = put_text(to, n, "\r\n");
    memcpy(to + n, digits, length);
    return put_text(to, n + length, "\r\n");
}

/* What comes in round after round. Returns 0 after the last. Only who has the seat reads. */
static int read_round(void) {
    static size_t i;
    uint8_t text[4096];
    char name[24];
    if (i == rounds) return 0;
    i++;
    size_t n = 0;
    for (int k = 0; k < BOXES; k++) n = put_message(text, n, "s", sids[k], i);
    uint64_t asked = atomic_load(&token);
    if (asked) {
        name[jet_encode_u64((uint8_t *)name, asked)] = 0;
        n = put_message(text, n, name, 1000000, i);
    }
    if (i % 7 == 0) n = put_text(text, n, "PING\r\n");
    n = put_message(text, n, "s", sids[0], i + 1000000000);
    /* In two pieces, cut somewhere. */
    size_t at = i % n;
    inbound_feed(&in, jet_span_of(text, at));
    inbound_feed(&in, jet_span_of(text + at, n - at));
    return 1;
}

static void *reader(void *unused) {
    while (read_round()) seat_lend(&in.seat);
    atomic_store(&ended, 1);
    for (int k = 0; k < BOXES; k++) box_finish(&boxes[k]);
    return unused;
}

static void *caller(void *unused) {
    while (!atomic_load(&ended)) {
        if (!seat_take(&in.seat)) {
            sched_yield();
            continue;
        }
        lent += (size_t)read_round();
        seat_leave(&in.seat);
    }
    return unused;
}

static void in_order(void *context, uint64_t number) {
    uint64_t *last = context;
    if (number > 1000000000) return; /* the second message of a round */
    CHECK(number > *last);
    *last = number;
}

static void *consumer(void *which) {
    box *b = which;
    uint64_t last = 0;
    while (box_take(b, 50, in_order, &last) || !atomic_load(&ended)) continue;
    while (box_take(b, 50, in_order, &last)) continue;
    return NULL;
}

static void *publisher(void *unused) {
    uint8_t payload[200];
    memset(payload, 'x', sizeof payload);
    for (size_t i = 0; i < rounds; i++) {
        outbound_publish(&out, jet_span_of(payload, i % sizeof payload));
        if (i % 16 == 0) outbound_send_now(&out);
    }
    return unused;
}

static void *writer(void *unused) {
    outbound_pump(&out);
    return unused;
}

static void *manager(void *unused) {
    for (size_t i = 0; !atomic_load(&ended); i++) {
        box *asking = malloc(sizeof *asking), *brief = malloc(sizeof *brief);
        CHECK(asking && brief);
        box_init(asking, 4);
        box_init(brief, 4);
        uint64_t mine = inbound_add_reply(&in, asking), sid = inbound_add(&in, brief);
        CHECK(mine && sid);
        atomic_store(&token, mine);
        outbound_ping(&out);
        atomic_fetch_add(&asked_pings, 1);
        outbound_send_now(&out);
        box_take(asking, 1, NULL, NULL);
        atomic_store(&token, 0);
        if (i % 3 == 0) box_poke(&boxes[i % BOXES]);
        if (i % 5 == 0) discarded += box_discard(&boxes[1]);
        inbound_remove_reply(&in, mine);
        inbound_remove(&in, sid);
        /* Nobody can reach them any more: the reader looks and puts under one route lock. */
        box_free(asking);
        box_free(brief);
        free(asking);
        free(brief);
    }
    return unused;
}

int main(int argc, char **argv) {
    static const char *const names[] = {"", "route", "box", "take", "out", "send", "seat"};
    pthread_t thread[9];
    CHECK(argc >= 2);
    rounds = strtoul(argv[1], NULL, 10);
    for (int k = 1; argc > 2 && k < 7; k++)
        if (strcmp(argv[2], names[k]) == 0) left_out = (enum lock_kind)k;
    CHECK((argc > 2) == (left_out != NO_LOCK));

    outbound_init(&out, 4096);
    inbound_init(&in, &out);
    for (int k = 0; k < BOXES; k++) {
        box_init(&boxes[k], k ? 500 : 0);
        sids[k] = inbound_add(&in, &boxes[k]);
    }
    pthread_create(&thread[0], NULL, reader, NULL);
    pthread_create(&thread[1], NULL, consumer, &boxes[0]);
    pthread_create(&thread[2], NULL, consumer, &boxes[0]);
    pthread_create(&thread[3], NULL, consumer, &boxes[1]);
    pthread_create(&thread[4], NULL, publisher, NULL);
    pthread_create(&thread[5], NULL, publisher, NULL);
    pthread_create(&thread[6], NULL, manager, NULL);
    pthread_create(&thread[7], NULL, writer, NULL);
    pthread_create(&thread[8], NULL, caller, NULL);
    for (int k = 0; k < 7; k++) pthread_join(thread[k], NULL);
    pthread_join(thread[8], NULL);
    outbound_close(&out);
    pthread_join(thread[7], NULL);

    /* Nobody consumed the third one: it holds what fits. */
    CHECK(lent > 0 && lent < rounds);
    CHECK(boxes[0].received == 2 * rounds && boxes[0].used == 2 * rounds && !boxes[0].dropped);
    CHECK(boxes[1].received == rounds);
    CHECK(boxes[1].used + boxes[1].dropped + discarded == rounds);
    CHECK(boxes[2].chain.count + boxes[2].dropped == rounds);
    CHECK(out.published == 2 * rounds && out.messages == 2 * rounds);
    CHECK(out.pongs == rounds / 7 && out.pings == atomic_load(&asked_pings));
    for (int k = 0; k < BOXES; k++) box_free(&boxes[k]);
    inbound_free(&in);
    outbound_free(&out);
    printf("%zu messages, %zu requests\n", in.messages, (size_t)atomic_load(&asked_pings));
    return 0;
}
