/* The threads of one connection on the link library as it is, under the thread sanitizer.
 *
 *   threads ROUNDS [SITE]
 *
 * One reader and its followers, a writer, takers, publishers, and threads that make routes, look and
 * send; links break and come again. With SITE ("link_queue.c:57") that one use of a lock or an
 * atomic is left out: the sanitizer, or a check here, must notice. */
#include "world.h"

enum { LINKS = 4 };

link_inbound in;
link_outbound out;
link_queue queues[QUEUES], idle;
link_group group;
uint64_t sids[QUEUES];
size_t rounds;
atomic_int ended;
atomic_uint_fast64_t token, brief_sid = 4;
jet_pool pool;

/* One link from its beginning to its end, as a session does it. */
static void live(size_t *events, int framed) {
    static const jet_span first = {(const uint8_t *)"SUB s 1\r\n", 9};
    static server s;
    static link_websocket w;
    int pair[2];
    jet_span text;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    memset(&s, 0, sizeof s);
    s.framed = framed;
    server_start(&s, pair[1]);
    link_outbound_expect(&out);
    link_inbound_begin(&in, 1 << 20);
    if (framed) {
        link_websocket_init(&w, 0);
        w.outbound = &out;
    }
    link_encode encode = framed ? link_websocket_encode : NULL;
    CHECK(link_outbound_attach(&out, pair[0], first, 1 << 20, encode, &w, 0) >= 0);
    in.decode = framed ? link_websocket_decode : NULL;
    in.context = &w;
    link_inbound_link(&in, pair[0]);
    while (link_inbound_pump(&in, pair[0], &text) != LINK_EVENT_EOF) {
        (*events)++;
        if (framed) link_websocket_owes(&w);
    }
    shutdown(pair[0], SHUT_RDWR);
    link_outbound_detach(&out);
    link_outbound_forget(&out);
    link_inbound_unlink(&in);
    close(pair[0]);
    server_join(&s);
    if (framed) link_websocket_free(&w);
}

static void *reader(void *events) {
    for (int i = 0; i < LINKS; i++) {
        live(events, i % 2);
        usleep(2000);
    }
    atomic_store(&ended, 1);
    for (int k = 0; k < QUEUES; k++) link_queue_finish(&queues[k]);
    link_outbound_close(&out);
    return NULL;
}

static void *writer(void *unused) {
    link_outbound_pump(&out);
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread[10 + PUBLISHERS + LOOKERS];
    size_t n = 0, events = 0;
    CHECK(argc >= 2);
    rounds = strtoul(argv[1], NULL, 10);
#ifdef LINK_MUTATION
    if (argc > 2) mutant_choose(argv[2]);
#endif
    /* A wake-up that is lost must not hang what runs this. */
    alarm((unsigned)(100 + rounds / 50));
    link_outbound_init(&out, 4096, 20000);
    link_inbound_init(&in, &out, 1 << 20);
    in.pool = &pool;
    for (int k = 0; k < QUEUES; k++) {
        link_queue_init(&queues[k], &pool, k ? 500 : 0, 0);
        /* All segments come from the pool, of either size. */
        queues[k].chain.first_cap = k % 2 ? JET_SEGMENT_MAX : JET_SEGMENT_FIRST;
        sids[k] = link_inbound_add(&in, &queues[k]);
    }
    link_group_init(&group, 2);
    CHECK(link_group_add(&group) && link_group_add(&group));
    CHECK(link_group_enter(&group) && link_group_enter(&group)); /* the two workers */
    for (int k = 3; k < QUEUES; k++) link_queue_join_group(&queues[k], &group, NULL, 0, k == 4);
    pthread_create(&thread[n++], NULL, worker, NULL);
    pthread_create(&thread[n++], NULL, worker, NULL);
    link_queue_init(&idle, NULL, 0, 0);
    pthread_create(&thread[n++], NULL, writer, NULL);
    pthread_create(&thread[n++], NULL, taker, &queues[0]);
    pthread_create(&thread[n++], NULL, taker, &queues[0]);
    pthread_create(&thread[n++], NULL, taker, &queues[1]);
    for (intptr_t k = 0; k < PUBLISHERS; k++) pthread_create(&thread[n++], NULL, publisher, (void *)k);
    pthread_create(&thread[n++], NULL, acknowledger, NULL);
    pthread_create(&thread[n++], NULL, manager, NULL);
    pthread_create(&thread[n++], NULL, watcher, NULL);
    for (intptr_t k = 0; k < LOOKERS; k++) pthread_create(&thread[n++], NULL, looker, (void *)k);
    pthread_create(&thread[n++], NULL, reader, &events);
    while (n) pthread_join(thread[--n], NULL);

    /* No taker consumed the third queue: it holds what fits. */
    CHECK(taken[0] == queues[0].received && taken[0] == queues[0].taken && !queues[0].dropped);
    CHECK(taken[1] + queues[1].dropped + discarded[1] == queues[1].received);
    CHECK(queues[2].chain.count + queues[2].dropped == queues[2].received);
    CHECK(taken[3] + queues[3].dropped == queues[3].received);
    CHECK(taken[4] + queues[4].dropped + discarded[4] == queues[4].received);
    CHECK(events > 0 && frames_arrived > 0 && taken[0] > rounds);
    for (int k = 0; k < QUEUES; k++) link_queue_free(&queues[k]);
    link_group_free(&group);
    link_queue_free(&idle);
    link_inbound_free(&in);
    link_outbound_free(&out);
    jet_pool_free(&pool);
#ifdef LINK_MUTATION
    mutant_report();
#endif
    printf("%zu messages, %zu frames\n", (size_t)in.messages, frames_arrived);
    return 0;
}
