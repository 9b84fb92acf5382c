/* csrc/link: which thread reads the socket, and how often it is woken. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "link_kit.h"

#ifdef __linux__
enum { PIECES = 20, PIECE = 5 };

/* Two ends of a link over TCP: what a socket tells only when so much has come is TCP's. */
static void connect_pair(int pair[2]) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof at;
    int one = 1, door = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(door >= 0 && bind(door, (struct sockaddr *)&at, n) == 0 && listen(door, 1) == 0);
    CHECK(getsockname(door, (struct sockaddr *)&at, &n) == 0);
    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(pair[0], (struct sockaddr *)&at, n) == 0);
    pair[1] = accept(door, NULL, NULL);
    CHECK(pair[1] >= 0 && setsockopt(pair[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
    close(door);
}

/* Write messages piece by piece, each when the reading thread had time to see the one before. */
static void *write_pieces(void *fd) {
    static const char piece[] = "MSG s 1 1\r\nx\r\nMSG s 1 1\r\nx\r\nMSG s 1 1\r\nx\r\n"
                                "MSG s 1 1\r\nx\r\nMSG s 1 1\r\nx\r\n";
    for (int i = 0; i < PIECES; i++) {
        CHECK(write(*(int *)fd, piece, sizeof piece - 1) == sizeof piece - 1);
        usleep(500);
    }
    return NULL;
}

/* A follower that gathers wakes up once for all that it waits for, and leaves no trace on the socket:
 * the next one sees a single message. */
static void check_gathers(void) {
    link_outbound o;
    link_inbound in;
    link_queue q;
    pthread_t writer;
    int pair[2];
    connect_pair(pair);
    link_outbound_init(&o, 1000, 1000);
    link_inbound_init(&in, &o, 1000);
    link_queue_init(&q, NULL, 0, 0);
    CHECK(link_inbound_add(&in, &q) == 1);
    link_inbound_link(&in, pair[0]);
    in.turn.taken = 0;
    in.frame = 14; /* as messages have told before */
    CHECK(link_reader_turn_take(&in.turn, 0));
    CHECK(link_queue_find(&q, PIECES * PIECE, 1, 0, 0) == LINK_WAIT);
    CHECK(pthread_create(&writer, NULL, write_pieces, &pair[1]) == 0);
    CHECK(link_inbound_follow(&in, link_queue_missing, &q, link_now() + 30, 1));
    CHECK(q.chain.count == PIECES * PIECE && in.reads <= 2);
    pthread_join(writer, NULL);
    link_inbound_leave(&in, 0);
    CHECK(link_queue_find(&q, 1, 1, 0, 0) == LINK_FOUND);
    jet_chain_free(&q.ready);
    /* When its time is up it takes what is there, though it is less. */
    CHECK(link_reader_turn_take(&in.turn, 0));
    CHECK(link_queue_find(&q, 10, 1, 0, 0) == LINK_WAIT);
    CHECK(write(pair[1], "MSG s 1 1\r\nx\r\n", 14) == 14);
    CHECK(!link_inbound_follow(&in, link_queue_missing, &q, link_now() + 0.01, 1) && q.chain.count == 1);
    link_inbound_leave(&in, 0);
    CHECK(link_reader_turn_take(&in.turn, 0));
    CHECK(link_queue_find(&q, 2, 1, 0, 0) == LINK_WAIT);
    CHECK(write(pair[1], "MSG s 1 1\r\nx\r\n", 14) == 14);
    CHECK(link_inbound_follow(&in, link_queue_missing, &q, link_now() + 30, 0));
    link_inbound_leave(&in, 0);
    close(pair[0]), close(pair[1]);
    link_inbound_free(&in);
    link_queue_free(&q);
    link_outbound_free(&o);
}
#endif

void suite_reader_turn(void) {
    link_outbound o;
    link_inbound in;
    link_queue q;
    jet_span text;
    int pair[2];
#ifdef __linux__
    check_gathers();
#endif
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    link_outbound_init(&o, 1000, 1000);
    link_inbound_init(&in, &o, 1000);
    link_queue_init(&q, NULL, 0, 0);
    CHECK(link_inbound_add(&in, &q) == 1);
    CHECK(link_reader_turn_is_taken(&in.turn) && !link_reader_turn_take(&in.turn, 0));
#ifdef __linux__
    link_inbound_link(&in, pair[0]);
    in.turn.taken = 0; /* the reader sleeps */
    CHECK(link_reader_turn_take(&in.turn, 0) && !link_reader_turn_take(&in.turn, 0));
    CHECK(write(pair[1], "MSG s 1 1\r\nx\r\n", 14) == 14);
    CHECK(link_queue_find(&q, 1, 1, 0, 0) == LINK_WAIT);
    /* Until there is something for it; when there is, nothing more is waited for. */
    CHECK(link_inbound_follow(&in, link_queue_missing, &q, link_now() + 5, 0));
    CHECK(link_inbound_follow(&in, link_queue_missing, &q, link_now() + 5, 0));
    CHECK(link_reader_turn_is_taken(&in.turn));
    CHECK(link_inbound_is_near(&in));
    link_inbound_leave(&in, 0.5);
    CHECK(!link_inbound_is_near(&in));
    take_one(&q, S("x"));
    /* What needs the reader is left to it, and no other follower reads before. */
    CHECK(link_reader_turn_take(&in.turn, 0));
    CHECK(write(pair[1], "PONG\r\n", 6) == 6);
    CHECK(!link_inbound_follow(&in, link_queue_missing, &q, link_now() + 5, 0));
    CHECK(write(pair[1], "MSG s 1 1\r\ny\r\n", 14) == 14);
    CHECK(!link_inbound_follow(&in, link_queue_missing, &q, link_now() + 5, 0)); /* nor this one */
    link_inbound_leave(&in, 0);
    CHECK(!link_reader_turn_take(&in.turn, 0));
    CHECK(link_reader_turn_lend(&in.turn, &text) == LINK_EVENT_PONG);
    in.turn.taken = 0;
    CHECK(link_reader_turn_take(&in.turn, 0));
    CHECK(link_inbound_follow(&in, link_queue_missing, &q, link_now() + 5, 0));
    take_one(&q, S("y"));
    double before = link_now();
    CHECK(!link_inbound_follow(&in, link_queue_missing, &q, before + 0.01, 0)); /* nothing comes */
    link_inbound_leave(&in, 0.01);
    CHECK(link_now() >= before + 0.01 && !link_reader_turn_is_taken(&in.turn));
    in.turn.taken = 1;
    CHECK(write(pair[1], "PONG\r\n", 6) == 6);
    CHECK(link_inbound_pump(&in, pair[0], &text) == LINK_EVENT_PONG);
    close(pair[1]);
    CHECK(link_inbound_pump(&in, pair[0], &text) == LINK_EVENT_EOF && in.why == 0);
    link_reader_turn_reset(&in.turn);
    CHECK(link_reader_turn_is_taken(&in.turn) && in.turn.epoll < 0);
#else
    (void)text;
    close(pair[1]);
#endif
    close(pair[0]);
    link_inbound_free(&in);
    link_queue_free(&q);
    link_outbound_free(&o);
}
