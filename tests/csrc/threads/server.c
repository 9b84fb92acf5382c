/* The server's end of a link: whole frames in order come in, messages and lines go out. */
#include "world.h"

size_t frames_arrived;

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

static int send_all(int fd, const uint8_t *bytes, size_t n) {
    while (n) {
        ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
        if (sent <= 0) return 0;
        bytes += sent;
        n -= (size_t)sent;
    }
    return 1;
}

static void *write_rounds(void *which) {
    static uint64_t number;
    server *s = which;
    uint8_t text[4096];
    char name[3 + JET_TOKEN_MAX + 1];
    for (size_t i = 0; i < rounds; i++) {
        size_t n = 0;
        number++;
        for (int k = 0; k < QUEUES; k++) n = put_message(text, n, "s", sids[k], number);
        uint64_t asked = atomic_load(&token);
        if (asked) {
            memcpy(name, "_R.", 3);
            name[3 + jet_token_write(&in.key, asked, (uint8_t *)name + 3)] = 0;
            n = put_message(text, n, name, REPLY_SID, number);
        }
        n = put_message(text, n, "s", atomic_load_explicit(&brief_sid, memory_order_relaxed), number);
        if (number % 7 == 0) n = put_text(text, n, "PING\r\n");
        if (number % 50 == 0) n = put_text(text, n, "PONG\r\nINFO {}\r\n");
        n = put_message(text, n, "s", sids[0], number);
        /* In two pieces, cut somewhere. */
        size_t at = number % n;
        if (!send_all(s->fd, text, at)) break;
        if (number % 3 == 0) sched_yield();
        if (number % 64 == 0) usleep(300); /* time for takers to wait, and for followers to read */
        if (!send_all(s->fd, text + at, n - at)) break;
    }
    shutdown(s->fd, SHUT_RDWR);
    return NULL;
}

/* One frame at the start of `p`; returns its size, 0 when it is not whole. */
static size_t frame(server *s, const uint8_t *p, size_t n) {
    const uint8_t *lf = memchr(p, '\n', n);
    uint64_t size = 0, number = 0;
    if (!lf) return 0;
    size_t line = (size_t)(lf + 1 - p);
    CHECK(line >= 6 && lf[-1] == '\r');
    if (p[0] != 'P' || p[1] != 'U') {
        CHECK(!memcmp(p, "PING\r\n", 6) || !memcmp(p, "PONG\r\n", 6) || !memcmp(p, "SUB ", 4) ||
              !memcmp(p, "UNSUB ", 6));
        return line;
    }
    CHECK(line > 8 && (p[4] == 'p' || p[4] == 'a') && p[6] == ' ');
    const uint8_t *at = p + 7;
    if (*at == '_') at = (const uint8_t *)memchr(at, ' ', n - 7) + 1; /* behind a reply */
    CHECK(jet_scan_leading_u64(jet_span_of(at, (size_t)(lf - at)), &size));
    if (n < line + size + 2) return 0;
    CHECK(!memcmp(p + line + size, "\r\n", 2));
    CHECK(jet_scan_leading_u64(jet_span_of(p + line, size), &number));
    if (p[4] == 'p') { /* an acknowledgement ('a') may come again */
        CHECK(number > s->published[p[5] - '0']);
        s->published[p[5] - '0'] = number;
    }
    return line + size + 2;
}

static void *read_frames(void *which) {
    server *s = which;
    jet_buf buf;
    jet_buf_init(&buf);
    for (size_t reads = 0;; reads++) {
        uint8_t *to = jet_buf_reserve(&buf, 2048);
        CHECK(to);
        ssize_t got = recv(s->fd, to, 2048, 0);
        if (got <= 0) break;
        jet_buf_commit(&buf, (size_t)got);
        size_t used;
        while (jet_buf_len(&buf) && (used = frame(s, jet_buf_ptr(&buf), jet_buf_len(&buf)))) {
            jet_buf_consume(&buf, used);
            frames_arrived++;
        }
        if (reads % 16 == 0) usleep(200); /* a server that takes data slowly, now and then */
    }
    jet_buf_free(&buf);
    return NULL;
}

void server_start(server *s, int fd) {
    s->fd = fd;
    pthread_create(&s->reading, NULL, read_frames, s);
    pthread_create(&s->writing, NULL, write_rounds, s);
}

void server_join(server *s) {
    pthread_join(s->writing, NULL);
    pthread_join(s->reading, NULL);
    close(s->fd);
}
